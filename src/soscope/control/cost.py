# SPDX-License-Identifier: Apache-2.0
"""The cost of an observation for the programs: slower calls, and all times that they waited."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Reasons for which the programs waited. JSON documents and recordings have the same words.
PRINT = "print"
READER = "reader"
DISK = "disk"
RING = "ring"
START = "start"
END = "end"
STOPS = "stops"
EXEC = "exec"
LOOK = "look"
# Work that the programs' threads did for soscope, beside their calls.
CHUNKS = "chunks"
IMAGES = "images"
ASKING = "asking"
WORK = (CHUNKS, IMAGES, ASKING)
ONCE = (START, END, LOOK)  # reasons that every observation has, for a short time


class Price:
    """What an observation has cost, in nanoseconds; times of threads and programs are added up.

    `ran_ns` is for how long the programs were observed. `parts` says what their threads waited for,
    or did, and for how long. `call_ns` is by how much each call took longer, at least. `calls_ns`
    is by how much all calls together took longer. Both are None if nobody knows. `faster_ns` is
    about how long the programs would run if their calls were only recorded, None if recording would
    not help. `stolen_ns` is what the host of a virtual machine took meanwhile of the time of all
    processors, which was `stolen_of_ns`: that is no cost, but the programs ran longer by it.
    """

    __slots__ = (
        "call_ns",
        "calls_ns",
        "faster_ns",
        "parts",
        "ran_ns",
        "stolen_ns",
        "stolen_of_ns",
    )

    def __init__(self, ran_ns: int = 0, parts: Mapping[str, int] | None = None) -> None:
        self.ran_ns = ran_ns
        self.parts = dict(parts or {})
        self.call_ns: float | None = None
        self.calls_ns: float | None = None
        self.faster_ns: int | None = None
        self.stolen_ns = self.stolen_of_ns = 0

    @property
    def total_ns(self) -> float:
        """The whole known cost in ns."""
        return sum(self.parts.values()) + (self.calls_ns or 0)

    @property
    def waited_ns(self) -> int:
        """The time in ns for which threads waited, for whatever reason."""
        return sum(ns for what, ns in self.parts.items() if what not in WORK)

    @property
    def share(self) -> float:
        """The cost as a part of the programs' run time. It may exceed 1 with several threads."""
        return self.total_ns / self.ran_ns if self.ran_ns > 0 else 0.0

    @property
    def stolen_share(self) -> float:
        """What part of the processors' time the host took."""
        return self.stolen_ns / self.stolen_of_ns if self.stolen_of_ns > 0 else 0.0

    @property
    def largest_wait(self) -> tuple[str, int]:
        """The reason of the longest wait, and its time in ns, or ("", 0) if no thread waited."""
        waits = [(what, ns) for what, ns in self.parts.items() if ns and what not in WORK]
        return max(waits, key=lambda wait: wait[1], default=("", 0))

    def document(self) -> dict[str, object]:
        """Return the cost as JSON documents and recordings have it."""
        calls = self.calls_ns
        return {
            "ran_ns": self.ran_ns,
            "cost_ns": round(self.total_ns),
            "call_ns": None if self.call_ns is None else round(self.call_ns, 1),
            "calls_ns": None if calls is None else round(calls),
            "waited_ns": self.waited_ns,
            "waited_for": self.largest_wait[0] or None,
            "parts_ns": dict(sorted(self.parts.items(), key=lambda part: -part[1])),
            "recorded_ns": self.faster_ns,
            "stolen_ns": self.stolen_ns,
            "stolen_of_ns": self.stolen_of_ns,
        }

    @classmethod
    def of(cls, said: object) -> Price | None:
        """Return the cost that a recording has, or None if it has none."""
        if not isinstance(said, dict) or not isinstance(said.get("ran_ns"), int):
            return None
        parts = said.get("parts_ns")
        known = parts.items() if isinstance(parts, dict) else ()
        made = cls(said["ran_ns"], {str(what): ns for what, ns in known if isinstance(ns, int)})
        made.call_ns, made.calls_ns = _number(said.get("call_ns")), _number(said.get("calls_ns"))
        faster = said.get("recorded_ns")
        made.faster_ns = faster if isinstance(faster, int) else None
        stolen, whole = said.get("stolen_ns"), said.get("stolen_of_ns")
        if isinstance(stolen, int) and isinstance(whole, int):
            made.stolen_ns, made.stolen_of_ns = stolen, whole
        return made


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
