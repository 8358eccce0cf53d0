# SPDX-License-Identifier: Apache-2.0
"""What the programs of one session wait for, and for how long they run.

The agent and the tracers count in each control block how long threads wait. While the ring is
full, the reason for the wait is what soscope does at that time: it prints, waits for a reader or
a disk, or empties the ring.
"""

from __future__ import annotations

import time

from soscope.control.outcome import (
    ASKING,
    CHUNKS,
    EXEC,
    IMAGES,
    LOOK,
    PRINT,
    READER,
    RING,
    STOPS,
    Price,
)
from soscope.control.program import Program
from soscope.proc.status import machine_ns
from soscope.recording.drain import Drainer
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias


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
