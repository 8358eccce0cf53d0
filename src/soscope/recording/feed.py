# SPDX-License-Identifier: Apache-2.0
"""Drains everything that is traced into one sink, with the clock and the processes.

One drainer per traced program; a program is an exec, its forked children share it.
"""

from __future__ import annotations

from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.recording.clock import SPACING, Clock, Sampler
from soscope.recording.drain import Drainer
from soscope.recording.sink import Sink, Stop, Told
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 1_000_000_000  # ns without a clock pair


class Feed:
    """The drainers of one run. Call `drain` at least ten times a second, then `finish`.

    The feed decides which clock pairs there are. The file and the live decoder get the same
    ones, and so make the same times. `clock` has them, too.

    `hear` has somebody else tell what has happened to processes before what was drained; it says
    whether that is all told. Until then no clock pair puts anything in order.
    """

    __slots__ = (
        "_before",
        "_kept",
        "_new",
        "_news",
        "_owed",
        "_paired",
        "_programs",
        "_sampler",
        "clock",
        "drainers",
        "hear",
        "inner_pids",
        "sink",
    )

    def __init__(self, sink: Sink, sampler: Sampler | None = None) -> None:
        self.sink = sink
        self.drainers: list[Drainer] = []
        self.hear: Callable[[], bool] | None = None
        # What processes in another pid namespace than ours call themselves, by our pid.
        self.inner_pids: dict[int, int] = {}
        self._programs = 0
        self._sampler = sampler or Sampler()
        self._new: dict[int, Drainer] = {}  # by pid: not yet told of its start or exec
        self.clock = Clock()
        self._news = True  # something has been handed over since the last clock pair
        self._owed = 0  # pairs that must follow
        self._before: tuple[int, int, int] | None = None  # the last pair, if it was not kept
        self._kept = 0  # monotonic ns of the last pair that was
        self._paired = 0  # and of the last of all
        self._pair(self._sampler.sample())

    def add(self, block: ControlBlock, path: str, pid: int) -> Drainer:
        """Drain `block` from now on, that of the program `path` which process `pid` runs.

        Tell of the start or exec of the program afterwards.
        """
        drainer = Drainer(block, self._programs, self.sink, self._sampler, path)
        self._programs += 1
        drainer.inner_pids = self.inner_pids
        drainer.pids.add(pid)
        self._new[pid] = drainer
        self.drainers.append(drainer)
        return drainer

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
        if self.hear is not None and not self.hear():
            return units
        # A pair says that all from long before it is there: not while some is held back.
        late = sample[2] - self._paired >= _LONGEST
        if late or not any(drainer.waits for drainer in self.drainers):
            self._pair(sample)
        return units

    def now(self) -> Stop:
        """Return what ends the recording at this moment, for `stop`. Any thread may ask."""
        tsc, realtime, _ = self._sample()
        return Stop(realtime, tsc)

    def stop(self, stop: Stop) -> None:
        """Take nothing that was done behind `stop`; hand over the rest first."""
        for drainer in self.drainers:
            drainer.drain()
        self._news = True
        self.sink.stop(stop)

    def event(self, event: Told) -> None:
        """Pass on what happened to a process, behind everything it did before.

        Keeps the drainers' `pids` up to date.
        """
        new = self._new.get(event.pid) if isinstance(event, ProcessStart) else None
        if new is not None:  # what it has done already is behind its start or exec
            for drainer in self.drainers:
                if drainer is not new:
                    drainer.drain()
        elif not isinstance(event, Signal):
            self.drain()
        mine = [drainer for drainer in self.drainers if event.pid in drainer.pids]
        if isinstance(event, ProcessStart):
            if event.event == "fork":
                for drainer in self.drainers:
                    if event.parent in drainer.pids:
                        drainer.pids.add(event.pid)
            elif event.event == "exec":
                for drainer in mine:
                    if drainer is not new:
                        drainer.process_ended(event.pid)
            self._new.pop(event.pid, None)
        elif isinstance(event, ProcessExit):
            for drainer in mine:
                drainer.process_ended(event.pid)
            self.inner_pids.pop(event.pid, None)
        self._news = True
        self.sink.event(event)

    def retire(self, drainer: Drainer) -> None:
        """Hand over the rest of a program that no process runs any more, and forget it."""
        self.drainers.remove(drainer)
        self._news = True
        drainer.finish()
        drainer.close()

    def finish(self, *, dead: bool = True) -> None:
        """Hand over the rest; `dead`: no traced process is left."""
        sample = self._sample()
        for drainer in self.drainers:
            drainer.finish(dead=dead)
        self._news = True
        self._pair(sample)

    def close(self) -> None:
        """Let go of the blocks: they can be closed then."""
        while self.drainers:
            self.drainers.pop().close()

    def _pair(self, sample: tuple[int, int, int]) -> None:
        """Hand over a clock pair where it is needed, else only say that it is so late.

        Needed are the pair behind news; the one after it, for it is the first that was read
        behind all that the news tell of; and one that is `SPACING` later still, which puts the
        news in order. Where news come after a rest, the pair in front of them bounds it.
        """
        before, self._before = self._before, None
        self._paired = sample[2]
        if self._has_news():
            if before is not None and before[2] - self._kept >= SPACING:
                self._keep(before)
            self._owed = 3
        if self._owed > 1 or (self._owed and sample[2] - self._kept >= SPACING):
            self._owed -= 1
            self._keep(sample)
        else:
            self._before = sample
            self.sink.tick(sample[0], sample[2])

    def _has_news(self) -> bool:
        news, self._news = self._news, False
        for drainer in self.drainers:
            news |= drainer.news
            drainer.news = False
        return news

    def _keep(self, pair: tuple[int, int, int]) -> None:
        self._kept = pair[2]
        self.clock.add(*pair)
        self.sink.clock(*pair)

    def _sample(self) -> tuple[int, int, int]:
        return self._sampler.sample(max((drainer.newest for drainer in self.drainers), default=0))
