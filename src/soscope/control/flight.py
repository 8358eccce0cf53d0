# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: rings keep the newest calls, and an event writes them to a recording.

The rings are not drained before the event. A recording is made of a copy of the rings, which go
on. So if two events happen within the recorded time, some calls are in two recordings.
"""

from __future__ import annotations

import time
from collections import deque

from soscope.errors import SoscopeError
from soscope.model.call import ProcessExit, ProcessStart, Signal
from soscope.proc.status import signal
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

SIGNAL = signal.SIGUSR1  # sent to soscope: write the rings now

_PAIRS = 128  # clock pairs that are kept for the recorded time
_MOST_EVENTS = 1 << 12

Pair = tuple[int, int, int]


class FlightSettings:
    """The time to keep, and the events that write it. Times are nanoseconds.

    `last_ns` is the length of time to record. `on_crash` writes when a signal has killed a
    process. `on_symbol` are filter expressions of functions, a call of which writes. Without
    both, a recording is written at the end. SIGNAL always writes one.
    """

    __slots__ = ("last_ns", "on_crash", "on_symbol")

    def __init__(self, last_ns: int, *, on_crash: bool, on_symbol: list[str]) -> None:
        self.last_ns = last_ns
        self.on_crash = on_crash
        self.on_symbol = on_symbol


class Flight:
    """A recording written to `path` because of `why`, with the `held_ns` before that event.

    `held_ns` is None if the recording has the whole time that the user asked for.
    """

    __slots__ = ("held_ns", "path", "why")

    def __init__(self, path: str, why: str, held_ns: int | None) -> None:
        self.path = path
        self.why = why
        self.held_ns = held_ns


class FlightRecorder:
    """Keeps what a recording of the rings needs beside them, and writes the recordings.

    `make_writer(number)` makes the file of recording 1, 2 and so on. `describe(sink)` writes the
    facts about functions. `written(flight)` is called after each recording. `flights` counts the
    recordings, and `skipped` the calls of symbols that came too soon after the previous one.
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
        self._calls: dict[ControlBlock, int] = {}  # call counts of the symbols at the last look
        self._symbol_at = 0  # monotonic ns before which calls of symbols are skipped
        self._wanted = ""
        self._symbols = f"--on-symbol {', '.join(settings.on_symbol)}"

    signal = SIGNAL

    def remarks(self) -> list[str]:
        """Return the remarks for the end of the session."""
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
        """Return whether the recording is written at the end of the session."""
        return not (self._settings.on_crash or self._settings.on_symbol)

    def ask(self) -> None:
        """Request a recording at the next `look`, because SIGUSR1 has come."""
        self._wanted = "SIGUSR1"

    def event(self, event: Told) -> None:
        """Take an event of a process."""
        self._events.append(event)
        if len(self._events) > _MOST_EVENTS:
            self._forget()

    def _forget(self) -> None:
        """Drop events of processes that ended before the recorded time."""
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
        """Write a recording if one is requested. Call this often."""
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
        """Handle the end of a process by signal `number`, or None if its end is not known."""
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
        """Write a recording of the rings' contents, up to the tsc `until` if it is not 0."""
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
        """Pass everything to `sink`. Return the tsc at which the recording gets complete, or 0."""
        for pair in (*self._first, now)[:2]:  # two pairs suffice to compute times
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
        """Return the time in ns that the rings held, or None if it is all that was asked for."""
        if not since:
            return None
        first = self._first[0]
        rate = (now[2] - first[2]) / max(now[0] - first[0], 1)
        held = max(int((now[0] - since) * rate), 0)
        return held if held < self._settings.last_ns else None


def calls_of_symbols(block: ControlBlock) -> tuple[int, int]:
    """Return how many calls of the `on_symbol` functions a program's processes have made.

    The second number is the tsc of the first call that was not read yet, or 0. Reading clears it.
    """
    with block.own(layout.INSTRUMENT_OPEN) as own, own.cast("Q") as words:
        if not len(words):
            return 0, 0
        calls, tsc = words[0], words[1]
        if tsc:
            words[1] = 0
        return calls, tsc


def _name_of(number: int) -> str:
    from signal import Signals  # slow to import

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
