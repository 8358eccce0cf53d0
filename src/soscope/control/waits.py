# SPDX-License-Identifier: Apache-2.0
"""What the programs of one session wait for, while they do, and for how long they run.

The agent and the tracers count how long threads wait, in each control block. What threads wait for
while the ring is full is what soscope does then: print, wait for a reader or a disk, or empty it.
"""

from __future__ import annotations

import time

from soscope.control.cost import (
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
from soscope.proc.cputime import machine_ns
from soscope.recording.drain import Drainer
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

_TOLD_NS = 1_000_000_000  # of waits, from which on they are told while the programs run

Rings: TypeAlias = "Mapping[Program, Drainer]"


class Waits:
    """The accounts of one session.

    `units` counts what programs have recorded that are let go of, but for what was recorded by
    work that is timed.
    `stopped_ns` is when nothing more was to be recorded, 0: it goes on.
    """

    def __init__(self) -> None:
        self.units = 0
        self.stopped_ns = 0
        self._ran_ns = 0
        self._ends: dict[Program, int] = {}  # when the last process ended, or executed another one
        self._parts: dict[str, int] = {}
        self._ticks = {CHUNKS: 0, IMAGES: 0, ASKING: 0}
        self._works_ticks = 0
        self._room = 0  # ns that threads waited for room
        self._busy: dict[str, int] = {}  # ns that soscope worked while a thread waited
        self._is_told = False
        self._machine = machine_ns()

    # ---- while the programs run ----

    def stood(self, what: str, ns: int) -> None:
        """Hear that threads stood still, for soscope to look at them or to change something."""
        if ns:
            self._parts[what] = self._parts.get(what, 0) + ns

    def ended(self, pid: int, time_ns: int, rings: Rings) -> None:
        """Hear that a process has ended, or runs another program."""
        for program, drainer in rings.items():
            if pid in drainer.pids:
                self._ends[program] = time_ns

    def during(
        self, rings: Rings, work: Callable[[], int | None], spent: Callable[[], dict[str, int]]
    ) -> int | None:
        """Do some work, and return what it returns; `spent` says what has taken how long so far.

        What takes the rest is to empty the ring.
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
        """Return what is to be told now, once: the waits have come to a second. Else None.

        `what` is what programs wait for at this moment, "": what they have waited for before.
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
        """Keep what is known of a program whose block is closed next."""
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
        """Return what it was in all, but for what calls took longer."""
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
        """Share out what threads have waited for room, by what soscope did meanwhile."""
        busy = sum(self._busy.values())
        if not busy:
            return {RING: room} if room else {}
        return {what: room * ns // busy for what, ns in self._busy.items() if room * ns // busy}


def _blocks(rings: Rings) -> Iterable[ControlBlock]:
    return (program.block for program in rings if program.block is not None)


def _is_waited_for(rings: Rings) -> bool:
    return any(block.ring_waiters for block in _blocks(rings))
