# SPDX-License-Identifier: Apache-2.0
"""What an observation costs the programs: longer calls, waits for soscope, and how that is said."""

from __future__ import annotations

import time

from soscope.control.program import Program
from soscope.proc.status import machine_ns
from soscope.recording.drain import Drainer
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias


# The cost of an observation for the programs: slower calls, and all times that they waited.

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


# Sentences about the cost of an observation, for every verb and every recording.

_LEAST = 0.01  # part of the run time; a lower cost is not printed
_LEAST_NS = 1_000_000  # a cost below this is not printed
_LEAST_WAIT_NS = 100_000_000  # the same, if the cost of a call is not known
_LARGE = 0.1  # of the cost: the start is told apart
_LONG_NS = 1_000_000_000  # a wait of this length is always printed

_FOR = {
    PRINT: "for soscope to print",
    READER: "for whoever reads soscope's output",
    DISK: "for the disk",
    RING: "for soscope to empty the ring",
    START: "for soscope to hook its calls",
    END: "for soscope to look at its memory at its end",
    LOOK: "for soscope to look at its objects",
    STOPS: "while soscope had stopped it",
    EXEC: "for soscope before it executed another program",
}
_INSTEAD = {
    PRINT: "--record FILE prints nothing meanwhile",
    READER: "--record FILE waits for no reader",
    DISK: "a faster disk helps, or fewer calls",
    RING: "fewer calls help, or a larger buffer",
    STOPS: "fewer calls help",
}


def cost_lines(
    cost: Price | None, what: str, *, verbose: bool = False, note: str = ""
) -> list[str]:
    """Return the lines about the cost of an observation, none if the cost is too small to matter.

    `what` names what caused the cost ("tracing"). `note` tells what the cost does not include.
    """
    if cost is None or (cost.ran_ns <= 0 and not verbose):
        return []
    lines = []
    once = sum(cost.parts.get(what, 0) for what in ONCE)
    worth = cost.total_ns - once
    least_ns = _LEAST_NS if cost.calls_ns is not None else _LEAST_WAIT_NS
    if verbose or worth >= max(least_ns, _LEAST * cost.ran_ns):
        lines += _all(cost, what, note)
    waited = cost.waited_ns
    if waited >= _LONG_NS or (lines and waited - once >= max(_LEAST * cost.ran_ns, _LEAST_NS)):
        lines.append(_waits(cost))
    if lines and cost.stolen_share >= _LEAST:
        part = share_text(cost.stolen_share)
        lines.append(f"the host took {part} of the processors' time: times are longer by as much")
    return lines


def _all(cost: Price, what: str, note: str) -> list[str]:
    each = ""
    if cost.call_ns is not None:
        least = f"at least {cost.call_ns:.0f} ns" if cost.call_ns >= 1 else "less than 1 ns"
        each = f"{least} a call"
    if not cost.total_ns:
        return [f"{what} cost the program {each}{note}"] if each else []
    parts = [each] if each else []
    all_of_it = f"{time_text(cost.total_ns)} in all"
    if cost.calls_ns is not None and cost.waited_ns:
        all_of_it += " with its waits"
    parts.append(all_of_it)
    if cost.ran_ns > 0:
        ran = f"{share_text(cost.share)} of the time it ran"
        if cost.share > 1:  # several threads at once
            ran = f"in threads of a program that ran {time_text(cost.ran_ns)}"
        parts.append(ran)
    start = cost.parts.get(START, 0)
    if start >= _LARGE * cost.total_ns:
        parts.append(f"{time_text(start)} of it at the start")
    return [f"{what} cost the program {', '.join(parts)}{note}"]


def _waits(cost: Price) -> str:
    """Return a line with the time that threads waited, the main reason, and what would help."""
    what, most = cost.largest_wait
    waited, ran = cost.waited_ns, cost.ran_ns
    of = f"{time_text(waited)} of {time_text(ran)}"
    who = "the program waited"
    if waited > ran:
        who, of = "threads of the program waited", f"{time_text(waited)} in {time_text(ran)}"
    for_what = _FOR.get(what, f"for {what}")
    if most < waited * 0.95:
        for_what = f"{time_text(most)} of it {for_what}"
        of += ","
    line = f"{who} {of} {for_what}"
    if what in (PRINT, READER) and cost.faster_ns is not None:
        return f"{line}; --record FILE takes about {time_text(cost.faster_ns)}"
    return f"{line}; {_INSTEAD[what]}" if what in _INSTEAD else line


def look_lines(cost: Price) -> list[str]:
    """Return the line about the wait of a program that was only looked at, if the wait was long."""
    if cost.waited_ns < _LONG_NS:
        return []
    return [f"the program waited {time_text(cost.waited_ns)} {_FOR[cost.largest_wait[0]]}"]


def waits_so_far(cost: Price) -> str:
    """Return a line about the waits of the running programs, the reason, and possible remedies."""
    what, _ = cost.largest_wait
    line = f"the program has waited {time_text(cost.waited_ns)} so far, most of it {_FOR[what]}"
    return f"{line}; {_INSTEAD[what]}" if what in _INSTEAD else line


def share_text(part: float) -> str:
    """Return a fraction in percent."""
    return "less than 0.1 %" if part < 0.001 else f"{100 * part:.3g} %"


def time_text(ns: float) -> str:
    """Return a time with three digits: 12.3 us."""
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
        if ns < 999.5 * size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


# What the programs of one session wait for, and for how long they run.
#
# The agent and the tracers count in each control block how long threads wait. While the ring is
# full, the reason for the wait is what soscope does at that time: it prints, waits for a reader or
# a disk, or empties the ring.

_TOLD_NS = 1_000_000_000  # ns of waits from which on they are printed during the run

Rings: TypeAlias = "Mapping[Program, Drainer]"


class Waits:
    """The times that one session has measured.

    `units` counts the recorded units of programs that are closed, except units of work whose time
    is measured separately. `stopped_ns` is the time at which recording was stopped, 0 while it
    goes on.
    """

    def __init__(self) -> None:
        self.units = 0
        self.stopped_ns = 0
        self._ran_ns = 0
        self._ends: dict[Program, int] = {}  # time of its end or next exec
        self._parts: dict[str, int] = {}
        self._ticks = {CHUNKS: 0, IMAGES: 0, ASKING: 0}
        self._works_ticks = 0
        self._room = 0  # ns that threads waited for room
        self._busy: dict[str, int] = {}  # ns that soscope worked while a thread waited
        self._is_told = False
        self._machine = machine_ns()

    # ---- while the programs run ----

    def stood(self, what: str, ns: int) -> None:
        """Add a time for which soscope had stopped threads, to look at them or change something."""
        if ns:
            self._parts[what] = self._parts.get(what, 0) + ns

    def ended(self, pid: int, time_ns: int, rings: Rings) -> None:
        """Note that a process has ended or runs another program."""
        for program, drainer in rings.items():
            if pid in drainer.pids:
                self._ends[program] = time_ns

    def during(
        self, rings: Rings, work: Callable[[], int | None], spent: Callable[[], dict[str, int]]
    ) -> int | None:
        """Call `work` and return its result, and add its time if threads waited for it meanwhile.

        `spent` returns the times of the kinds of work so far. The remaining time counts as
        emptying the ring.
        """
        waited, before, begun = _is_waited_for(rings), spent(), time.monotonic_ns()
        units = work()
        if waited or _is_waited_for(rings):
            left = time.monotonic_ns() - begun
            for what, ns in spent().items():
                took = ns - before.get(what, 0)
                self._busy[what] = self._busy.get(what, 0) + took
                left -= took
            self._busy[RING] = self._busy.get(RING, 0) + max(left, 0)
        return units

    def told(self, rings: Rings, what: str) -> Price | None:
        """Return the cost to print during the run, once the waits have reached a second, else None.

        `what` is the present reason of the waits, or "" if the earlier reasons are to be printed.
        """
        if self._is_told:
            return None
        room = self._room + sum(block.waited_room for block in _blocks(rings))
        if room < _TOLD_NS:
            return None
        self._is_told = True
        return Price(0, {what: room} if what else self._shared(room))

    # ---- the end ----

    def take(self, program: Program, block: ControlBlock, drainer: Drainer) -> None:
        """Keep the times of a program whose block is closed next."""
        self.units += max(drainer.units - block.work_units, 0)
        self._room += block.waited_room
        self.stood(EXEC, block.waited_exec)
        self.stood(LOOK, block.waited_look)
        self.stood(STOPS, block.stood_still)
        self._ticks[CHUNKS] += block.took_chunks
        self._ticks[IMAGES] += block.took_images
        self._ticks[ASKING] += block.took_asking
        self._works_ticks += block.took_works
        end = self._ends.pop(program, 0) or time.time_ns()
        if self.stopped_ns:
            end = min(end, self.stopped_ns)
        self._ran_ns += max(end - program.time_ns, 0)

    def price(self, ns_per_tick: float) -> Price:
        """Return the whole cost, without the time by which calls took longer."""
        parts = self._shared(self._room)
        for what, ns in self._parts.items():
            parts[what] = parts.get(what, 0) + ns
        for what, ticks in self._ticks.items():
            if ticks:
                parts[what] = round(ticks * ns_per_tick)
        price = Price(self._ran_ns, parts)
        stolen, whole = machine_ns()
        price.stolen_ns = max(stolen - self._machine[0], 0)
        price.stolen_of_ns = max(whole - self._machine[1], 0)
        if self._works_ticks:
            price.calls_ns = round(self._works_ticks * ns_per_tick)
        if parts.get(PRINT, 0) or parts.get(READER, 0):
            emptied = sum(ns for what, ns in self._busy.items() if what not in (PRINT, READER))
            price.faster_ns = max(self._ran_ns - self._room, emptied)
        return price

    def _shared(self, room: int) -> dict[str, int]:
        """Divide the time that threads waited for room by what soscope did meanwhile."""
        busy = sum(self._busy.values())
        if not busy:
            return {RING: room} if room else {}
        return {what: room * ns // busy for what, ns in self._busy.items() if room * ns // busy}


def _blocks(rings: Rings) -> Iterable[ControlBlock]:
    return (program.block for program in rings if program.block is not None)


def _is_waited_for(rings: Rings) -> bool:
    return any(block.ring_waiters for block in _blocks(rings))
