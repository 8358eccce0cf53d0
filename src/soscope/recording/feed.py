# SPDX-License-Identifier: Apache-2.0
"""Drains all traced programs into one sink, with clock pairs and process events.

There is one drainer for each traced program. A program is an exec, and its forked children share
it.
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

_LONGEST = 1_000_000_000  # ns without a clock pair, at most


class Feed:
    """The drainers of one run. Call `drain` at least ten times a second, then `finish`.

    The feed decides which clock pairs there are. The file and the live decoder get the same ones,
    and so compute the same times. `clock` has them, too.

    `hear` passes on process events from before what was drained, and returns whether these are
    all. Until then no clock pair is handed over, so nothing is put in order.
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
        # Own pids of processes in another pid namespace, by the pid that soscope sees.
        self.inner_pids: dict[int, int] = {}
        self._programs = 0
        self._sampler = sampler or Sampler()
        self._new: dict[int, Drainer] = {}  # by pid: its start or exec was not handed over yet
        self.clock = Clock()
        self._news = True  # data was handed over since the last clock pair
        self._owed = 0  # number of pairs that must follow
        self._before: tuple[int, int, int] | None = None  # the last pair, if it was not kept
        self._kept = 0  # monotonic ns of the last kept pair
        self._paired = 0  # monotonic ns of the last pair
        self._pair(self._sampler.sample())

    def add(self, block: ControlBlock, path: str, pid: int) -> Drainer:
        """Drain `block`, of the program `path` in process `pid`, from now on.

        Pass on the start or exec of the program afterwards.
        """
        drainer = Drainer(block, self._programs, self.sink, self._sampler, path)
        self._programs += 1
        drainer.inner_pids = self.inner_pids
        drainer.pids.add(pid)
        self._new[pid] = drainer
        self.drainers.append(drainer)
        return drainer

    def beat(self) -> None:
        """Tell the agents that soscope is alive, without draining.

        This is for callers that are busy with earlier data. Writers then wait or drop, by their
        policy.
        """
        for drainer in self.drainers:
            drainer.beat()

    def drain(self) -> int:
        """Hand over what there is. Return the number of units."""
        sample = self._sample()
        units = sum([drainer.drain() for drainer in self.drainers])
        if self.hear is not None and not self.hear():
            return units
        # A pair states that all older records have arrived, so there is none while some are held
        # back.
        late = sample[2] - self._paired >= _LONGEST
        if late or not any(drainer.waits for drainer in self.drainers):
            self._pair(sample)
        return units

    def now(self) -> Stop:
        """Return the end of the recording at this moment, for `stop`. Any thread may call this."""
        tsc, realtime, _ = self._sample()
        return Stop(realtime, tsc)

    def stop(self, stop: Stop) -> None:
        """Record nothing that happens after `stop`. Hand over earlier records first."""
        for drainer in self.drainers:
            drainer.drain()
        self._news = True
        self.sink.stop(stop)

    def event(self, event: Told) -> None:
        """Pass on what happened to a process, after all its earlier records.

        Keeps the drainers' `pids` up to date.
        """
        new = self._new.get(event.pid) if isinstance(event, ProcessStart) else None
        if new is not None:  # a new program's records come after its start or exec
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
        """Hand over the rest of a program that no process runs any more, and drop its drainer."""
        self.drainers.remove(drainer)
        self._news = True
        drainer.finish()
        drainer.close()

    def finish(self, *, dead: bool = True) -> None:
        """Hand over the rest. `dead` means that no traced process is left."""
        sample = self._sample()
        for drainer in self.drainers:
            drainer.finish(dead=dead)
        self._news = True
        self._pair(sample)

    def close(self) -> None:
        """Close the drainers, so that the blocks can be closed."""
        while self.drainers:
            self.drainers.pop().close()

    def _pair(self, sample: tuple[int, int, int]) -> None:
        """Hand over a clock pair if it is needed, else only a tick.

        A pair is needed behind news. The pair after it is needed, too, as it is the first that
        was read after everything in the news happened. So is a pair that is `SPACING` later
        still, which puts the news in order. If news come after a pause, the pair before them
        bounds it.
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
