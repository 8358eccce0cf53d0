# SPDX-License-Identifier: Apache-2.0
"""The Python API of traces: `soscope.trace(...)`, `soscope.open`, and call objects."""

from __future__ import annotations

import os
import queue
import threading
from types import TracebackType

from soscope.errors import AgentError, RecordingError
from soscope.instruments.trace.instrument import TraceRun
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.instruments.trace.replay import Replay
from soscope.instruments.trace.settings import MODE_SUMMARY, MODE_TRACE, TraceSettings
from soscope.instruments.trace.summary import SummaryRow, rows_of
from soscope.model.call import Entry, Event, Exit
from soscope.model.image import TracedImage, TracedSlot
from soscope.prototypes import Prototypes
from soscope.prototypes.formats import Argument
from soscope.wire.layout import BLOCK_FRAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from soscope.frames.names import CallFrames
    from soscope.model.call import StackFrame, Stats
    from soscope.recording.calls import Calls
    from soscope.recording.columns import Columns
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


# `soscope.trace(...)`: the calls of a command or a process, as objects, while it runs.
#
#     with soscope.trace(["ls", "-l"], select="malloc,free", from_="all") as run:
#         for call in run:
#             print(call.caller.name, call.symbol, call.args, call.result, call.duration_ns)
#     print(run.exit_status, run.dropped)
#
#     outcome = soscope.trace(pid=4711, record="run.sosr", duration=5.0).wait()
#
# A separate thread observes the command or the process. Calls come through a bounded queue, so a
# slow reader slows the command down and loses nothing.

_QUEUED = 10_000  # calls that may wait for the reader
_LOOK = 0.1  # seconds between checks whether the trace has ended


class Call:
    """One call that has ended, or whose end cannot be seen.

    >>> with soscope.trace(["cat", "/dev/null"], select="read") as run:
    ...     (call,) = run
    >>> call
    <Call read(3, "", ...) = 0>
    >>> (call.caller.name, call.callee.name, call.args[0].value, call.result.value, call.ended)
    ('cat', 'libc.so.6', 3, 0, 'return')

    `caller` and `callee` are images or None. `args` and `result` have name, type, text and value.
    `out` of an argument has the same for the data that the call has written to where it points.
    `time_ns` is CLOCK_REALTIME at the entry. `duration_ns` is None if the end was not seen.
    `ended` tells how the call ended ("return", "unwound", "exit", "killed", "lost", None).
    `stack` is a tuple of frames, innermost first, with `image`, `symbol`, `offset`, `file` and
    `line`. It is () if it is not known or was not asked for.
    """

    __slots__ = (
        "args",
        "callee",
        "caller",
        "depth",
        "duration_ns",
        "ended",
        "errno",
        "pid",
        "result",
        "return_addr",
        "stack",
        "symbol",
        "tid",
        "time_ns",
        "version",
    )

    def __init__(
        self,
        entry: Entry,
        end: Exit | None,
        shown_by: Prototypes,
        limit: int,
        stack: tuple[StackFrame, ...] = (),
    ) -> None:
        slot = entry.slot
        self.time_ns = entry.time_ns
        self.pid = entry.pid
        self.tid = entry.tid
        self.caller: TracedImage | None = slot.caller
        self.callee: TracedImage | None = slot.callee
        self.symbol = slot.symbol
        self.version = slot.version
        self.depth = entry.depth
        self.return_addr = entry.return_addr
        self.stack = stack
        self.args: list[Argument] = shown_by.format_call(slot, entry.captured, limit, after=end)
        self.result = None if end is None else shown_by.format_result(slot, end, entry, limit)
        self.errno = None if end is None else shown_by.failure_errno(slot, end)
        self.duration_ns = None if end is None else end.duration_ns
        self.ended = None if end is None else end.ended

    def __repr__(self) -> str:
        """Return the call as in a line of text."""
        shown = ", ".join(argument.shown for argument in self.args)
        result = "" if self.result is None else f" = {self.result.text}"
        return f"<Call {self.symbol}({shown}){result}>"


class _Queue(Listener):
    """Passes calls to the reader's thread."""

    def __init__(self, calls: queue.Queue[Call | None], limit: int, *, stacks: bool) -> None:
        self._has_stacks = stacks
        self._frames: CallFrames | None = None
        self._calls = calls
        self._limit = limit
        self._prototypes: Prototypes | None = None
        self._open: set[Entry] = set()
        self.closed = False
        self.has_begun = threading.Event()

    def meet(self, programs: Programs) -> None:
        """Prepare naming the frames of stacks."""
        if self._has_stacks:
            from soscope.frames.names import CallFrames

            self._frames = CallFrames(programs)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Keep the prototypes."""
        del selection
        self._prototypes = prototypes

    def begun(self) -> None:
        """Wake up threads that wait until the trace has begun."""
        self.has_begun.set()

    def events(self, batch: list[Event]) -> None:
        """Make calls from entries and exits."""
        for event in batch:
            if self.closed:
                return
            if isinstance(event, Exit):
                # setjmp may return again, and a forked child returns from a call of its parent.
                if event.entry in self._open and not event.is_inherited:
                    self._open.discard(event.entry)
                    self._put(self._call(event.entry, event))
            elif isinstance(event, Entry):
                if event.entry_only:
                    self._put(self._call(event, None))
                else:
                    self._open.add(event)

    def _call(self, entry: Entry, end: Exit | None) -> Call:
        assert self._prototypes is not None
        frames = self._frames
        stack = (
            () if frames is None else frames.frames((entry.slot.process, entry.pid, entry.stack))
        )
        return Call(entry, end, self._prototypes, self._limit, stack)

    def _put(self, call: Call) -> None:
        while not self.closed:
            try:
                self._calls.put(call, timeout=_LOOK)
            except queue.Full:
                continue  # the reader is slow: check again whether it has stopped
            return


class trace:  # noqa: N801  used like a function
    """Trace a command, or processes that run: a context manager, and an iterator of the calls.

    >>> with soscope.trace(["cat", "/dev/null"], select="open*,read", from_="all") as run:
    ...     seen = {call.symbol for call in run if call.caller.name == "cat"}
    >>> sorted(seen)
    ['open', 'read']
    >>> (run.exit_status, run.outcome.status, run.dropped, run.untraced)
    (0, 0, 0, [])

    Either `command` or `pid` is given. `command` is a list of words, and `pid` the id of a
    process that runs already, or several of them. `select`, `from_` and `to` are the words of -e,
    --from and -l, as a string or a list of strings. `record` is the path of a recording to write
    as well. After `duration` seconds nothing more is recorded, and soscope detaches from a
    process. With `summary` calls are counted and timed, and there are none to iterate: see
    `summary`. The command runs in the directory `cwd` with the environment `env`, as with
    subprocess.Popen. `prototypes` are paths of headers or of ltrace's files that declare
    functions, as with `-F`. `stacks` is how many frames of each call's stack to keep, at most 64:
    see `Call.stack`.

    Without a `with`, the iterator starts the command. If the reader leaves the iterator early,
    the command runs on unrecorded, and the same is true at the end of the `with`. `wait` reads no
    calls.

    Raises UsageError for a faulty filter, and RecordingError. Errors at the start of the command
    are raised by the iterator, by `wait`, or at the end of the `with`. So are FormatError for a
    faulty declaration, and AgentError if no program could get the agent and the command ran
    untraced.
    """

    def __init__(
        self,
        command: list[str] | None = None,
        *,
        pid: int | Iterable[int] | None = None,
        select: str | list[str] | None = None,
        from_: str | list[str] | None = None,
        to: str | list[str] | None = None,
        record: str | os.PathLike[str] | None = None,
        duration: float | None = None,
        summary: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        follow: bool = False,
        entry_only: bool = False,
        string_limit: int = 32,
        prototypes: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        stacks: int = 0,
    ) -> None:
        if (command is None) == (pid is None):
            raise TypeError("soscope.trace takes a command or a pid")
        if pid is not None and (cwd is not None or env is not None):
            raise TypeError("a process that runs has its directory and environment already")
        if stacks and summary:
            raise TypeError("calls that are counted have no stacks")
        if not 0 <= stacks <= BLOCK_FRAMES:
            raise ValueError(f"stacks is {stacks}, which is not from 0 to {BLOCK_FRAMES}")
        settings = TraceSettings(
            [] if command is None else _command(command),
            pids=[] if pid is None else _pids(pid),
            select=_words(select),
            from_=_words(from_),
            to=_words(to),
            mode=MODE_SUMMARY if summary else MODE_TRACE,
            record=None if record is None else os.fspath(record),
            duration_ns=None if duration is None else round(duration * 1e9),
            cwd=None if cwd is None else os.fspath(cwd),
            environ=None if env is None else dict(env),
            follow=follow,
            entry_only=entry_only,
            string_limit=string_limit,
            when_full="block" if pid is None else "drop",
            wants_events=not summary,
            prototypes=_paths(prototypes),
            stacks=stacks,
        )
        self._what = " ".join(settings.command or ["process", *map(str, settings.pids)])
        self._calls: queue.Queue[Call | None] = queue.Queue(_QUEUED)
        self._listener = _Queue(self._calls, string_limit, stacks=stacks > 0)
        self._trace = TraceRun(settings, self._listener)
        self._thread = threading.Thread(target=self._run, name="soscope", daemon=True)
        self._is_started = False
        self._outcome: TraceOutcome | None = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        if self._outcome is not None:
            state = f"ended, {self._outcome.calls:,} calls"
        else:
            state = "runs" if self._thread.is_alive() else "failed" if self._error else "not begun"
        return f"<trace of {self._what}: {state}>"

    def _run(self) -> None:
        try:
            self._outcome = self._trace.run()
            self._error = _untraced(self._outcome)
        except BaseException as error:  # noqa: BLE001  raised in the reader's thread
            self._error = error
        self._listener.has_begun.set()
        try:
            self._calls.put_nowait(None)
        except queue.Full:
            pass  # the reader sees the end when the thread has ended

    def __enter__(self) -> Self:
        """Start the command, or attach to the processes. Return when their calls are seen."""
        self._start()
        self._listener.has_begun.wait()
        return self

    def _start(self) -> None:
        self._is_started = True
        self._thread.start()

    def __iter__(self) -> Iterator[Call]:
        """Yield calls in the order in which they end, until the command has ended.

        Starts the command if it has not been started.
        """
        is_ours = not self._is_started
        if is_ours:
            self._start()
        try:
            while (call := self._next()) is not None:
                yield call
        finally:
            if is_ours:
                self._stop()
        self._raise()

    def _next(self) -> Call | None:
        """Wait for the next call. Return None if there will be none."""
        while True:
            is_last = not self._thread.is_alive()
            try:
                return self._calls.get(timeout=0 if is_last else _LOOK)
            except queue.Empty:
                if is_last:
                    return None

    def _stop(self) -> None:
        """Stop recording, as no calls are read any more."""
        self._listener.closed = True
        self._trace.stop("")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Stop recording and wait for the command's end."""
        self._stop()
        while self._thread.is_alive():
            self._let_go()
        if error is None:
            self._raise()

    def wait(self) -> TraceOutcome:
        """Wait until the command or `duration` ends, without reading calls.

        Starts the command if it has not been started.

        >>> soscope.trace(["cat", "/dev/null"], record="other.sosr").wait().status
        0
        >>> len(soscope.open("other.sosr").calls) > 0
        True
        """
        self._listener.closed = True
        if not self._is_started:
            self._start()
        while self._thread.is_alive():
            self._let_go()
        self._raise()
        assert self._outcome is not None
        return self._outcome

    def _let_go(self) -> None:
        """Discard calls that will not be read."""
        try:
            self._calls.get(timeout=0.05)
        except queue.Empty:
            pass  # check again whether the thread has ended

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    @property
    def outcome(self) -> TraceOutcome | None:
        """Return the outcome of the trace, None while it runs."""
        return self._outcome

    def summary(self) -> list[SummaryRow]:
        """Return the rows of `soscope trace -c`, with most time first, then most calls.

        There are none before the end, and without `summary=True`.

        >>> with soscope.trace(["cat", "/dev/null"], summary=True) as run:
        ...     outcome = run.wait()
        >>> {row.symbol: row.calls for row in run.summary()}["read"]
        1
        """
        return [] if self._outcome is None else rows_of(self._outcome.programs)

    @property
    def exit_status(self) -> int | None:
        """Return the command's exit status, or minus the number of the signal that killed it.

        Return None while it runs.
        """
        if self._outcome is None:
            return None
        signal = self._outcome.signal
        return self._outcome.status if signal is None else -signal

    @property
    def dropped(self) -> int:
        """Return how many events are missing."""
        return 0 if self._outcome is None else self._outcome.dropped_count

    @property
    def untraced(self) -> list[tuple[str, str]]:
        """Return the programs without the agent as (path, reason)."""
        return [] if self._outcome is None else list(self._outcome.untraced)


def _command(words: list[str]) -> list[str]:
    """Return the words of a command. Raises TypeError if they are no list of words."""
    if isinstance(words, (str, bytes)):
        raise TypeError(
            f"a command is a list of words, not {type(words).__name__}: "
            "shlex.split makes one of a string"
        )
    command = [os.fspath(word) for word in words]
    if not command or not all(isinstance(word, str) for word in command):
        raise TypeError("a command is a list of words: the program's name, then its arguments")
    return command


def _pids(said: int | Iterable[int]) -> list[int]:
    """Return the ids of processes. Raises TypeError if they are none."""
    pids = [said] if isinstance(said, int) else list(said)
    if not pids or not all(isinstance(pid, int) for pid in pids):
        raise TypeError("pid is the id of a process, or several of them")
    return pids


def _untraced(outcome: TraceOutcome) -> AgentError | None:
    """Return the error for a command of which nothing could be traced, None if there is none."""
    if outcome.programs or not outcome.untraced:
        return None
    path, reason = outcome.untraced[0]
    return AgentError(f"'{path}' ran untraced: {reason}")


def _paths(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None,
) -> list[str]:
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths or ()
    return [os.fspath(path) for path in listed]


def _words(said: str | list[str] | None) -> list[str]:
    return [said] if isinstance(said, str) else list(said or ())


# A recording in Python: `soscope.open`.


class Recording:
    """A recording that `soscope trace --record` made, or is still making.

    >>> with soscope.open("run.sosr") as run:
    ...     slow = run.calls[run.calls.duration_ns > 1_000_000]
    ...     table = run.summary()
    >>> (run.path, run.command)
    ('run.sosr', ['cat', '/dev/null'])

    `path` is the file, `command` the words that were traced, empty for a process that ran already.
    After `close` its properties raise RecordingError; calls that were read stay.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file. Raises FormatError if it is no recording, RecordingError."""
        self.path = os.fspath(path)
        self._replay: Replay | None = Replay(path)
        self.command = self._replay.command
        self._columns: Columns | None = None
        self._calls: Calls | None = None

    def _open(self) -> Replay:
        if self._replay is None:
            raise RecordingError(f"'{self.path}' has been closed")
        return self._replay

    @property
    def complete(self) -> bool:
        """Return whether it contains everything that was asked for: see `shortfalls`.

        Raises RecordingError.

        >>> soscope.open("run.sosr").complete
        True
        """
        return not self.shortfalls

    @property
    def shortfalls(self) -> list[str]:
        """Return what it lacks, in a word or two each, as in the last line of a trace.

        Raises RecordingError.

        >>> soscope.open("run.sosr").shortfalls  # else "dropped events", ...
        []
        """
        return self._open().outcome(None).shortfalls

    @property
    def why(self) -> str:
        """Return why it ended: "exit", "detached", "duration", what is damaged, ...

        Raises RecordingError.

        >>> soscope.open("run.sosr").why
        'exit'
        """
        return self._open().recording.why

    @property
    def images(self) -> list[TracedImage]:
        """Return the images of all programs (fields: see model/image.py). Raises RecordingError.

        >>> [image.name for image in soscope.open("run.sosr").images if image.is_main]
        ['cat']
        """
        return self._open().recording.images

    @property
    def slots(self) -> list[TracedSlot]:
        """Return the slots of all programs (fields: see model/image.py). Raises RecordingError.

        >>> sorted(slot.symbol for slot in soscope.open("run.sosr").slots if "read" in slot.symbol)
        ['__freading', 'read']
        """
        return self._open().recording.slots

    @property
    def calls(self) -> Calls:
        """Return all calls, read at the first use. There are none if calls were only counted.

        Raises RecordingError.

        >>> calls = soscope.open("run.sosr").calls
        >>> calls.result[calls.symbol == "read"].tolist()
        [0]
        """
        if self._calls is None:
            from soscope.recording.calls import calls_of

            replay = self._open()
            self._calls = calls_of(self._read(), replay.recording.programs, _stacks(replay))
        return self._calls

    def batches(self, rows: int = 1 << 20) -> Iterator[Calls]:
        """Yield all calls in order, at most `rows` of them at once, in bounded memory.

        Nothing is kept. The file is read twice, as the end of a call may be far behind the call.
        Raises ValueError if `rows` is not positive.

        >>> [len(some) for some in soscope.open("run.sosr").batches(rows=1000)] != []
        True
        """
        if rows < 1:
            raise ValueError(f"rows is {rows}")
        from soscope.recording.calls import calls_of
        from soscope.recording.columns import batches

        replay = self._open()
        recording, stacks = replay.recording, _stacks(replay)
        for part in batches(recording):
            calls = calls_of(part, recording.programs, stacks)
            for start in range(0, len(calls), rows):
                yield calls[start : start + rows]

    def _read(self) -> Columns:
        if self._columns is None:
            from soscope.recording.columns import columns

            self._columns = columns(self._open().recording)
        return self._columns

    def summary(self) -> list[SummaryRow]:
        """Return the rows of `soscope trace -c`, with most own time first, then most calls.

        Times are nanoseconds. Raises RecordingError.

        >>> {row.symbol: row.calls for row in soscope.open("run.sosr").summary()}["read"]
        1
        """
        replay = self._open()
        stats: dict[int, Stats] | None = None
        if replay.mode == MODE_TRACE:
            from soscope.recording.reduce import stats_of

            stats = stats_of(replay.recording)
        return rows_of(replay.programs(stats))

    def close(self) -> None:
        """Close the file. Calls that have been read stay. May be called twice.

        >>> run = soscope.open("run.sosr")
        >>> run.close()
        >>> run
        <Recording run.sosr: closed>
        """
        if self._replay is not None:
            self._replay.close()
            self._replay = None

    def __enter__(self) -> Recording:  # noqa: PYI034  as everywhere here
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._replay is None:
            return f"<Recording {self.path}: closed>"
        what = " ".join(self.command) or "a process"
        count = "" if self._columns is None else f", {len(self._columns):,} calls"
        end = ", ".join(self.shortfalls) or "complete"
        return f"<Recording {self.path} of {what}{count}; {end}>"


def _stacks(replay: Replay) -> CallFrames | None:
    """Return the object that names the stacks of a recording, None if it has no stacks."""
    if not replay.stack_depth:
        return None
    from soscope.frames.names import CallFrames

    return CallFrames(replay.recording.programs)


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording: `soscope.open`.

    >>> soscope.open("run.sosr")
    <Recording run.sosr of cat /dev/null; complete>

    docs/reference/recording.md describes the format. Raises FormatError if the file is no
    recording, and RecordingError if it cannot be read.
    """
    return Recording(path)
