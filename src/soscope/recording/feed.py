# SPDX-License-Identifier: Apache-2.0
"""Drains everything that is traced into one sink, with the clock and the processes.

One drainer per traced program; a program is an exec, its forked children share it.
"""

from __future__ import annotations

from soscope.model.call import Process, ProcessExit, Signal
from soscope.recording.clock import Sampler
from soscope.recording.drain import Drainer
from soscope.recording.sink import Sink, Told
from soscope.wire.block import ControlBlock

_LONGEST = 1_000_000_000  # ns without a clock pair


class Feed:
    """The drainers of one run. Call `drain` at least ten times a second, then `finish`."""

    __slots__ = ("_new", "_paired", "_programs", "_sampler", "drainers", "sink")

    def __init__(self, sink: Sink, sampler: Sampler | None = None) -> None:
        self.sink = sink
        self.drainers: list[Drainer] = []
        self._programs = 0
        self._sampler = sampler or Sampler()
        self._new: dict[int, Drainer] = {}  # by pid: not yet told of its start or exec
        self._paired = 0  # monotonic ns of the last clock pair
        self._pair(self._sampler.sample())

    def add(self, block: ControlBlock, path: str, pid: int) -> Drainer:
        """Drain `block` from now on, that of the program `path` which process `pid` runs.

        Tell of the start or exec of the program afterwards.
        """
        drainer = Drainer(block, self._programs, self.sink, self._sampler, path)
        self._programs += 1
        drainer.pids.add(pid)
        self._new[pid] = drainer
        self.drainers.append(drainer)
        return drainer

    @property
    def starved(self) -> bool:
        """Say whether some program's ring is full of chunks that living threads own."""
        return any(drainer.starved for drainer in self.drainers)

    def beat(self) -> None:
        """Tell the agents that soscope lives, without taking anything off them.

        For who is busy with what it has: writers then wait or drop, as their policy says.
        """
        for drainer in self.drainers:
            drainer.beat()

    def drain(self) -> int:
        """Hand over what there is; return the number of units."""
        sample = self._sample()
        units = sum([drainer.drain() for drainer in self.drainers])
        # A pair says that all from long before it is there: not while some is held back.
        late = sample[2] - self._paired >= _LONGEST
        if late or not any(drainer.waits for drainer in self.drainers):
            self._pair(sample)
        return units

    def event(self, event: Told) -> None:
        """Pass on what happened to a process, behind everything it did before.

        Keeps the drainers' `pids` up to date.
        """
        if not isinstance(event, Signal):
            self.drain()
        mine = [drainer for drainer in self.drainers if event.pid in drainer.pids]
        if isinstance(event, Process):
            if event.event == "fork":
                for drainer in self.drainers:
                    if event.parent in drainer.pids:
                        drainer.pids.add(event.pid)
            elif event.event == "exec":
                for drainer in mine:
                    if drainer is not self._new.get(event.pid):
                        drainer.process_ended(event.pid)
            self._new.pop(event.pid, None)
        elif isinstance(event, ProcessExit):
            for drainer in mine:
                drainer.process_ended(event.pid)
        self.sink.event(event)

    def retire(self, drainer: Drainer) -> None:
        """Hand over the rest of a program that no process runs any more, and forget it."""
        self.drainers.remove(drainer)
        drainer.finish()
        drainer.close()

    def finish(self, *, dead: bool = True) -> None:
        """Hand over the rest; `dead`: no traced process is left."""
        sample = self._sample()
        for drainer in self.drainers:
            drainer.finish(dead=dead)
        self._pair(sample)

    def _pair(self, sample: tuple[int, int, int]) -> None:
        self._paired = sample[2]
        self.sink.clock(*sample)

    def _sample(self) -> tuple[int, int, int]:
        return self._sampler.sample(max((one.newest for one in self.drainers), default=0))
