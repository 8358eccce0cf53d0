# SPDX-License-Identifier: Apache-2.0
"""What an observation has cost the programs: what their calls took longer, and all waits.

The agent and the tracers count how long threads wait, in each control block. What they wait for
is what soscope does meanwhile: print, wait for a reader or a disk, or empty the ring.
"""

from __future__ import annotations

import time
from _collections_abc import Iterable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.wire.block import ControlBlock

# What the programs waited for; the words are those of JSON documents and recordings.
PRINT = "print"
READER = "reader"
DISK = "disk"
RING = "ring"
START = "start"
STOPS = "stops"
EXEC = "exec"
# What their threads did that was soscope's work, beside their calls.
CHUNKS = "chunks"
IMAGES = "images"
WORK = (CHUNKS, IMAGES)

_TOLD_NS = 1_000_000_000  # of waits, from which on they are told while the programs run


class Cost:
    """What it has cost, in nanoseconds. Those of several threads, or programs, are added up.

    `ran_ns` is for how long the programs were observed. `parts` says what their threads waited for,
    or did, and for how long. `call_ns` is what a call took longer at least, `calls_ns` all calls
    together; None: nobody knows. `faster_ns` is how long the programs would run about if calls were
    only recorded, None where that is no way out.
    """

    __slots__ = ("call_ns", "calls_ns", "faster_ns", "parts", "ran_ns")

    def __init__(self, ran_ns: int = 0, parts: Mapping[str, int] | None = None) -> None:
        self.ran_ns = ran_ns
        self.parts = dict(parts or {})
        self.call_ns: float | None = None
        self.calls_ns: float | None = None
        self.faster_ns: int | None = None

    @property
    def total_ns(self) -> float:
        """All that is known of it."""
        return sum(self.parts.values()) + (self.calls_ns or 0)

    @property
    def waited_ns(self) -> int:
        """For how long threads waited, whatever for."""
        return sum(ns for what, ns in self.parts.items() if what not in WORK)

    @property
    def share(self) -> float:
        """What part of the time that the programs ran it was; of several threads, more than 1."""
        return self.total_ns / self.ran_ns if self.ran_ns > 0 else 0.0

    @property
    def largest_wait(self) -> tuple[str, int]:
        """What threads waited for longest, and for how long; ("", 0): for nothing."""
        waits = [(what, ns) for what, ns in self.parts.items() if ns and what not in WORK]
        return max(waits, key=lambda wait: wait[1], default=("", 0))

    def document(self) -> dict[str, object]:
        """Return what JSON documents and recordings say."""
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
        }

    @classmethod
    def of(cls, said: object) -> Cost | None:
        """Return what a recording says of it; None: nothing."""
        if not isinstance(said, dict) or not isinstance(said.get("ran_ns"), int):
            return None
        parts = said.get("parts_ns")
        known = parts.items() if isinstance(parts, dict) else ()
        made = cls(said["ran_ns"], {str(what): ns for what, ns in known if isinstance(ns, int)})
        made.call_ns, made.calls_ns = _number(said.get("call_ns")), _number(said.get("calls_ns"))
        faster = said.get("recorded_ns")
        made.faster_ns = faster if isinstance(faster, int) else None
        return made


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


class Waits:
    """What the programs of one session wait for, while they do.

    Ask `begin` when soscope begins to work, and `end` with what it has worked at. What soscope does
    while a thread waits for room in the ring is what that thread waits for.
    """

    def __init__(self) -> None:
        self._over: dict[str, int] = {}  # of programs that have ended
        self._ticks = {CHUNKS: 0, IMAGES: 0}  # the same
        self._busy: dict[str, int] = {}  # ns that soscope worked while a thread waited
        self._room = 0  # ns that threads of programs that have ended waited for room
        self._begun = 0
        self._is_waited_for = False
        self._is_told = False

    def begin(self, blocks: Iterable[ControlBlock]) -> None:
        """Hear that soscope begins to work."""
        self._is_waited_for = any(block.ring_waiters for block in blocks)
        self._begun = time.monotonic_ns()

    def end(self, blocks: Iterable[ControlBlock], spent: Mapping[str, int], rest: str) -> None:
        """Hear what it has worked at for how long, in ns; `rest` is what took the rest."""
        if not self._is_waited_for and not any(block.ring_waiters for block in blocks):
            return
        left = time.monotonic_ns() - self._begun
        for what, ns in spent.items():
            self._busy[what] = self._busy.get(what, 0) + ns
            left -= ns
        self._busy[rest] = self._busy.get(rest, 0) + max(left, 0)

    def take(self, block: ControlBlock) -> None:
        """Keep what a program has waited that has ended."""
        self._room += block.waited_room
        self._add(EXEC, block.waited_exec)
        self._add(STOPS, block.stood_still)
        self._ticks[CHUNKS] += block.took_chunks
        self._ticks[IMAGES] += block.took_images

    def stood(self, what: str, ns: int) -> None:
        """Hear that threads stood still, for soscope to look at them or to change something."""
        self._add(what, ns)

    def _add(self, what: str, ns: int) -> None:
        if ns:
            self._over[what] = self._over.get(what, 0) + ns

    def told(self, blocks: Iterable[ControlBlock], what: str) -> Cost | None:
        """Return what is to be told now, once: the waits have come to a second. Else None.

        `what` is what programs wait for at this moment, "": what they have waited for before.
        """
        if self._is_told:
            return None
        room = self._room + sum([block.waited_room for block in blocks])
        if room < _TOLD_NS:
            return None
        self._is_told = True
        return Cost(0, {what: room} if what else self._shared(room))

    def _shared(self, room: int) -> dict[str, int]:
        """Share out what threads have waited for room, by what soscope did meanwhile."""
        busy = sum(self._busy.values())
        if not busy:
            return {RING: room} if room else {}
        return {what: room * ns // busy for what, ns in self._busy.items() if room * ns // busy}

    def cost(self, ran_ns: int, ns_per_tick: float) -> Cost:
        """Return what it was in all, but for what calls took longer."""
        parts = self._shared(self._room)
        for what, ns in self._over.items():
            parts[what] = parts.get(what, 0) + ns
        for what, ticks in self._ticks.items():
            if ticks:
                parts[what] = round(ticks * ns_per_tick)
        cost = Cost(ran_ns, parts)
        if parts.get(PRINT, 0) or parts.get(READER, 0):
            drained = self._busy.get(RING, 0) + self._busy.get(DISK, 0)
            cost.faster_ns = max(ran_ns - self._room, drained, 0)
        return cost
