# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: rings that keep the newest, and recordings of them when something happens.

Nothing is drained until then. A recording is made of a copy of the rings, which go on; so what
happens twice within the time that is asked for is in two of them.
"""

from __future__ import annotations

import time
from collections import deque

from soscope.errors import SoscopeError
from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.proc.signals import signal
from soscope.recording.clock import SPACING, Sampler
from soscope.recording.drain import Drainer
from soscope.recording.sink import Sink, Stop, Told
from soscope.recording.snapshot import copy_of
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.recording.writer import Writer

SIGNAL = signal.SIGUSR1  # to soscope: write what there is

_PAIRS = 128  # of clocks that are kept for the time that is asked for
_MOST_EVENTS = 1 << 12

Pair = tuple[int, int, int]


class FlightSettings:
    """What is to be kept, and when it is written. Times are nanoseconds.

    `last_ns`: so much is wanted. `on_crash`: when a signal has killed a process. `on_symbol` are
    filter expressions: when a process makes such a call. Without both, at the end. And at SIGNAL.
    """

    __slots__ = ("last_ns", "on_crash", "on_symbol")

    def __init__(self, last_ns: int, *, on_crash: bool, on_symbol: list[str]) -> None:
        self.last_ns = last_ns
        self.on_crash = on_crash
        self.on_symbol = on_symbol


class Flight:
    """What was written: the file at `path`, because of `why`; it holds `held_ns` before that.

    `held_ns` is None where nothing of what was asked for is missing.
    """

    __slots__ = ("held_ns", "path", "why")

    def __init__(self, path: str, why: str, held_ns: int | None) -> None:
        self.path = path
        self.why = why
        self.held_ns = held_ns


class FlightRecorder:
    """Keeps what a recording of the rings needs beside them, and writes it.

    `make_writer(number)` makes the file of the first, second… recording; `describe(sink)` tells
    what it has to know of functions; `written(flight)` hears of each. `flights` counts them,
    `skipped` calls of the symbols that came too soon behind another one.
    """

    def __init__(
        self,
        settings: FlightSettings,
        make_writer: Callable[[int], Writer],
        describe: Callable[[Sink], object],
        written: Callable[[Flight], object],
    ) -> None:
        self.flights = self.skipped = 0
        self.errors: list[str] = []
        self._settings = settings
        self._make_writer = make_writer
        self._describe = describe
        self._written = written
        self._sampler = Sampler()
        self._first: list[Pair] = [self._sampler.sample()]
        self._pairs: deque[Pair] = deque(maxlen=_PAIRS)
        self._events: list[Told] = []
        self._calls: dict[ControlBlock, int] = {}  # of the symbols, as they were seen last
        self._symbol_at = 0  # monotonic ns: its calls before this are skipped
        self._wanted = ""
        self._symbols = f"--on-symbol {', '.join(settings.on_symbol)}"

    signal = SIGNAL

    def remarks(self) -> list[str]:
        """Return what is to be said at the end."""
        lines = list(dict.fromkeys(self.errors))
        if not self.flights and not lines:
            asked = self._settings
            whens = ["--on-crash"] * asked.on_crash
            whens += [f"--on-symbol {word}" for word in asked.on_symbol]
            lines.append(f"nothing was written: neither {', '.join(whens)} nor SIGUSR1 happened")
        if self.skipped:
            lines.append(
                f"--on-symbol: {self.skipped:,} more calls came less than --last behind one"
                " that was written at"
            )
        return lines

    @property
    def at_end(self) -> bool:
        """Return whether the end is what it is written at."""
        return not (self._settings.on_crash or self._settings.on_symbol)

    def ask(self) -> None:
        """Have it written at the next `look`: somebody has sent the signal."""
        self._wanted = "SIGUSR1"

    def event(self, event: Told) -> None:
        """Take what happened to a process."""
        self._events.append(event)
        if len(self._events) > _MOST_EVENTS:
            self._forget()

    def _forget(self) -> None:
        """Forget what no recording will need: of processes that have ended long ago."""
        since = time.time_ns() - self._settings.last_ns
        over = {
            event.pid
            for event in self._events
            if isinstance(event, ProcessExit) and event.time_ns < since
        }
        self._events = [
            event
            for event in self._events
            if event.pid not in over and not (isinstance(event, Signal) and event.time_ns < since)
        ]

    def look(self, drainers: Sequence[tuple[Drainer, ControlBlock]]) -> None:
        """Write what there is, if somebody wants that; call it often."""
        self._keep_pair()
        until = 0
        for _, block in drainers:
            calls, tsc = calls_of_symbols(block)
            if calls > self._calls.get(block, 0):
                self._calls[block] = calls
                if time.monotonic_ns() < self._symbol_at:
                    self.skipped += 1
                elif not self._wanted:
                    self._wanted, until = self._symbols, tsc
                    self._symbol_at = time.monotonic_ns() + self._settings.last_ns
        if self._wanted:
            why, self._wanted = self._wanted, ""
            self.write(why, drainers, until=until)

    def _keep_pair(self) -> None:
        pair = self._sampler.sample()
        if len(self._first) < 2:
            if pair[2] - self._first[0][2] >= SPACING:
                self._first.append(pair)
            return
        before = self._pairs[-1] if self._pairs else self._first[-1]
        if pair[2] - before[2] >= max(SPACING, self._settings.last_ns // (_PAIRS // 2)):
            self._pairs.append(pair)

    def killed(
        self, pid: int, number: int | None, drainers: Sequence[tuple[Drainer, ControlBlock]]
    ) -> None:
        """Hear that a process has ended, by a signal or (None) nobody knows how."""
        if self._settings.on_crash:
            how = _name_of(number) if number else "the end"
            self.write(f"{how} of process {pid}", drainers)

    def write(
        self,
        why: str,
        drainers: Sequence[tuple[Drainer, ControlBlock]],
        *,
        until: int = 0,
    ) -> None:
        """Write a recording of what the rings hold, up to the tsc `until` if that is not 0."""
        now = self._sampler.sample()
        try:
            writer = self._make_writer(self.flights + 1)
        except SoscopeError as error:
            self.errors.append(error.message)
            return
        self.flights += 1
        since = self._tell(writer, drainers, now, until)
        writer.end(complete=True, why="flight")
        self._written(Flight(writer.path, why, self._held(since, now)))

    def _tell(
        self,
        sink: Sink,
        drainers: Sequence[tuple[Drainer, ControlBlock]],
        now: Pair,
        until: int,
    ) -> int:
        """Hand everything to `sink`; return the tsc from which on nothing is missing, or 0."""
        for pair in (*self._first, now)[:2]:  # with two of them times can be told
            sink.clock(*pair)
        self._describe(sink)
        for event in self._events:
            if isinstance(event, ProcessStart):
                sink.event(event)
        since = 0
        for drainer, block in drainers:
            since = max(since, self._tell_program(sink, drainer, block))
        for event in self._events:
            if not isinstance(event, ProcessStart):
                sink.event(event)
        if until:
            sink.stop(Stop(now[1], until))
        for pair in (*self._pairs, now):
            sink.clock(*pair)
        return since

    def _tell_program(self, sink: Sink, drainer: Drainer, block: ControlBlock) -> int:
        try:
            copy = copy_of(block)
        except SoscopeError as error:
            self.errors.append(error.message)
            return 0
        try:
            mine = Drainer(copy, drainer.program, sink, self._sampler, drainer.path)
            mine.pids, mine.inner_pids = set(drainer.pids), drainer.inner_pids
            mine.finish()
            mine.close()
            return copy.overwritten
        finally:
            copy.close()

    def _held(self, since: int, now: Pair) -> int | None:
        """Return how much there was, in ns, where that is less than what is asked for."""
        if not since:
            return None
        first = self._first[0]
        rate = (now[2] - first[2]) / max(now[0] - first[0], 1)
        held = max(int((now[0] - since) * rate), 0)
        return held if held < self._settings.last_ns else None


def calls_of_symbols(block: ControlBlock) -> tuple[int, int]:
    """Return how many calls a program's processes have made that are waited for.

    And the tsc of the first of those that have not been asked for yet.
    """
    with block.own(layout.INSTRUMENT_OPEN) as own, own.cast("Q") as words:
        if not len(words):
            return 0, 0
        calls, tsc = words[0], words[1]
        if tsc:
            words[1] = 0
        return calls, tsc


def _name_of(number: int) -> str:
    from signal import Signals  # its import takes a while

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
