# SPDX-License-Identifier: Apache-2.0
"""`soscope.trace(...)`: the calls of a command, as objects, while it runs.

    with soscope.trace(["ls", "-l"], select="malloc,free", importer="all") as run:
        for call in run:
            print(call.caller.name, call.symbol, call.args, call.result, call.duration_ns)
    print(run.exit_status, run.dropped)

The command is supervised by a thread of its own; calls come through a bounded queue, so a
slow reader slows the command down and loses nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import Outcome
from soscope.instruments.trace.run import Session
from soscope.instruments.trace.settings import TraceSettings
from soscope.model.call import Entry, Event, Exit
from soscope.model.image import Image
from soscope.prototypes import Prototypes
from soscope.prototypes.argument import Argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from soscope.instruments.trace.filter import Selection

_QUEUED = 10_000  # calls that may wait for the reader


class Call:
    """One call that has ended, or whose end cannot be seen.

    `caller` and `callee` are images or None, `args` and `result` have type, text and value.
    `time_ns` is CLOCK_REALTIME at the entry; `duration_ns` is None where the end was not
    seen, `ended` says how it ended ("return", "unwound", "exit", "killed", "lost", None).
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
        "symbol",
        "tid",
        "time_ns",
        "version",
    )

    def __init__(self, entry: Entry, end: Exit | None, shown_by: Prototypes, limit: int) -> None:
        slot = entry.slot
        self.time_ns = entry.time_ns
        self.pid = entry.pid
        self.tid = entry.tid
        self.caller: Image | None = slot.caller
        self.callee: Image | None = slot.callee
        self.symbol = slot.symbol
        self.version = slot.version
        self.depth = entry.depth
        self.return_addr = entry.return_addr
        self.args: list[Argument] = shown_by.format_call(slot, entry.captured, limit, after=end)
        self.result = None if end is None else shown_by.format_result(slot, end, entry, limit)
        self.errno = None if end is None else shown_by.failure_errno(slot, end)
        self.duration_ns = None if end is None else end.duration_ns
        self.ended = None if end is None else end.ended

    def __repr__(self) -> str:
        """Show the call as a line of text would."""
        shown = ", ".join(one.text for one in self.args)
        result = "" if self.result is None else f" = {self.result.text}"
        return f"<Call {self.symbol}({shown}){result}>"


class _Queue(Listener):
    """Hands calls over to the reader's thread."""

    def __init__(self, calls: queue.Queue[Call | None], limit: int) -> None:
        self._calls = calls
        self._limit = limit
        self._prototypes: Prototypes | None = None
        self._open: set[Entry] = set()
        self.closed = False

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Keep the prototypes."""
        del selection
        self._prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        """Make calls of entries and exits."""
        assert self._prototypes is not None
        for event in batch:
            if self.closed:
                return
            if isinstance(event, Exit):
                # setjmp returns again, a forked child from what its parent called
                if event.entry in self._open and not event.is_inherited:
                    self._open.discard(event.entry)
                    self._put(Call(event.entry, event, self._prototypes, self._limit))
            elif isinstance(event, Entry):
                if event.entry_only:
                    self._put(Call(event, None, self._prototypes, self._limit))
                else:
                    self._open.add(event)

    def _put(self, call: Call) -> None:
        while not self.closed:
            try:
                self._calls.put(call, timeout=0.1)
            except queue.Full:
                continue  # nobody reads: look again whether it is over
            return


class trace:  # noqa: N801  used like a function
    """Trace a command: a context manager, and an iterator of its calls.

    `select`, `importer` and `provider` are the words of -e, --from and -l: a string or a
    list of strings. Raises UsageError for a faulty filter; what goes wrong when the command
    is started is raised by the iterator, or at the end of the `with`.
    """

    def __init__(
        self,
        command: list[str],
        *,
        select: str | list[str] | None = None,
        importer: str | list[str] | None = None,
        provider: str | list[str] | None = None,
        follow: bool = False,
        entry_only: bool = False,
        string_limit: int = 32,
    ) -> None:
        settings = TraceSettings(
            command,
            select=_words(select),
            callers=_words(importer),
            callees=_words(provider),
            follow=follow,
            entry_only=entry_only,
            string_limit=string_limit,
        )
        self._calls: queue.Queue[Call | None] = queue.Queue(_QUEUED)
        self._listener = _Queue(self._calls, string_limit)
        self._session = Session(settings, self._listener)
        self._thread = threading.Thread(target=self._run, name="soscope", daemon=True)
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None

    def _run(self) -> None:
        try:
            self._outcome = self._session.run()
        except BaseException as error:  # noqa: BLE001  raised in the reader's thread
            self._error = error
        self._calls.put(None)

    def __enter__(self) -> Self:
        """Start the command."""
        self._thread.start()
        return self

    def __iter__(self) -> Iterator[Call]:
        """Yield calls in the order in which they end, until the command has ended."""
        while (call := self._calls.get()) is not None:
            yield call
        self._calls.put(None)  # a second iteration ends at once
        self._raise()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Stop recording and wait for the command's end."""
        self._listener.closed = True
        self._session.stop("")
        while self._thread.is_alive():
            try:
                self._calls.get(timeout=0.05)
            except queue.Empty:
                continue  # look again whether the thread has ended
        if error is None:
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    @property
    def exit_status(self) -> int | None:
        """The command's exit status; minus the signal's number if one killed it.

        None while it runs.
        """
        if self._outcome is None:
            return None
        signal = self._outcome.signal
        return self._outcome.status if signal is None else -signal

    @property
    def dropped(self) -> int:
        """How many events are missing."""
        return 0 if self._outcome is None else self._outcome.dropped_count


def _words(said: str | list[str] | None) -> list[str]:
    if said is None:
        return []
    return [said] if isinstance(said, str) else list(said)
