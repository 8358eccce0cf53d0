# SPDX-License-Identifier: Apache-2.0
"""Drains everything that is traced into one sink, with the clock and the processes.

One drainer per traced program; a program is an exec, its forked children share it.
"""

from __future__ import annotations

from soscope.model.call import Process, ProcessExit
from soscope.recording.clock import Sampler
from soscope.recording.drain import Drainer
from soscope.recording.sink import Sink, Told
from soscope.wire.block import ControlBlock


class Feed:
    """The drainers of one run. Call `drain` at least ten times a second, then `finish`."""

    __slots__ = ("_sampler", "drainers", "sink")

    def __init__(self, sink: Sink, sampler: Sampler | None = None) -> None:
        self.sink = sink
        self.drainers: list[Drainer] = []
        self._sampler = sampler or Sampler()
        sink.clock(*self._sampler.sample())

    def add(self, block: ControlBlock, path: str, pid: int) -> Drainer:
        """Drain `block` from now on, that of the program `path` which process `pid` runs."""
        drainer = Drainer(block, len(self.drainers), self.sink, self._sampler, path)
        drainer.pids.add(pid)
        self.drainers.append(drainer)
        return drainer

    @property
    def starved(self) -> bool:
        """Say whether some program's ring is full of chunks that living threads own."""
        return any(drainer.starved for drainer in self.drainers)

    def drain(self) -> int:
        """Hand over what there is; return the number of units."""
        sample = self._sample()
        units = sum([drainer.drain() for drainer in self.drainers])
        self.sink.clock(*sample)
        return units

    def event(self, event: Told) -> None:
        """Pass on what happened to a process, behind everything it did before.

        Keeps the drainers' `pids` up to date.
        """
        mine = [drainer for drainer in self.drainers if event.pid in drainer.pids]
        if isinstance(event, Process):
            if event.event == "fork":
                for drainer in self.drainers:
                    if event.parent in drainer.pids:
                        drainer.pids.add(event.pid)
            elif event.event == "exec":
                # the block of the new program may be there already
                for drainer in mine[: max(len(mine) - 1, 1)]:
                    drainer.process_ended(event.pid)
        elif isinstance(event, ProcessExit):
            for drainer in mine:
                drainer.process_ended(event.pid)
        self.sink.event(event)

    def finish(self, *, dead: bool = True) -> None:
        """Hand over the rest; `dead`: no traced process is left."""
        sample = self._sample()
        for drainer in self.drainers:
            drainer.finish(dead=dead)
        self.sink.clock(*sample)
        self.sink.clock(*self._sample())  # decoders wait for one more

    def _sample(self) -> tuple[int, int, int]:
        return self._sampler.sample(max((one.newest for one in self.drainers), default=0))
