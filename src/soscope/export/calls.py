# SPDX-License-Identifier: Apache-2.0
"""Calls as slices of their threads' time: each ends before the call around it.

Viewers of traces only support such slices. But a coroutine may leave a call open while others of
its thread end, and events may have been lost. Then the inner calls end together with the outer
one, and are counted in `overlapping`.
"""

from __future__ import annotations

from soscope.frames.cppnames import CppNames
from soscope.instruments.trace.listener import Listener
from soscope.model.call import Entry, Event, Exit, ProcessStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.prototypes import Prototypes
    from soscope.select.filter import Selection


Thread = tuple[int, int]  # pid, tid


class Timeline(Listener):
    """Takes events, and reports beginnings and ends of calls to `opened` and `closed`.

    `first_ns` and `last_ns` are the times of the first and the last event, CLOCK_REALTIME. `cpp`
    demangles C++ names.
    """

    def __init__(self, cpp: CppNames) -> None:
        self.cpp = cpp
        self.overlapping = 0
        self.unended = 0
        self.first_ns = 0
        self.last_ns = 0
        self.calls = 0
        self.prototypes: Prototypes
        self._open: dict[Thread, list[Entry]] = {}
        self._latest: dict[Thread, int] = {}

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the prototypes, which determine the form of arguments."""
        self.prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        """Report the calls that begin and end."""
        for event in batch:
            if isinstance(event, Entry):
                self._seen(event.time_ns)
                self.calls += 1
                thread = event.pid, event.tid
                if event.entry_only:
                    self.instant(thread, event, self._forward(thread, event.time_ns))
                else:
                    self._open.setdefault(thread, []).append(event)
                    self.opened(thread, event, self._forward(thread, event.time_ns))
            elif isinstance(event, Exit):
                if event.entry is not None and not event.is_inherited:
                    self._end(event.entry, event)
            elif isinstance(event, ProcessStart):
                self._seen(event.time_ns)
                self.started(event)

    def end(self, outcome: TraceOutcome) -> None:
        """End the calls that are still open."""
        for thread, calls in self._open.items():
            while calls:
                self.unended += 1
                self.closed(thread, calls.pop(), None, self.last_ns)
        self.finished()

    def _seen(self, time_ns: int) -> None:
        if not self.first_ns:
            self.first_ns = time_ns
        self.last_ns = max(self.last_ns, time_ns)

    def _forward(self, thread: Thread, time_ns: int) -> int:
        """Return the time of a thread's next event, never earlier than the one before.

        Times are converted from ticks, each with its own error.
        """
        self._latest[thread] = time_ns = max(time_ns, self._latest.get(thread, 0))
        return time_ns

    def _end(self, entry: Entry, leave: Exit) -> None:
        thread = entry.pid, entry.tid
        calls = self._open.get(thread, [])
        if not any(entry is call for call in reversed(calls)):
            return  # an outer call has ended it already
        time_ns = self._forward(thread, leave.time_ns)
        self._seen(time_ns)
        while calls[-1] is not entry:
            self.overlapping += 1
            self.closed(thread, calls.pop(), None, time_ns)
        self.closed(thread, calls.pop(), leave, time_ns)

    # ---- overridden by formats ----

    def started(self, event: ProcessStart) -> None:
        """Handle the start of a process."""

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        """Handle a call whose end could not be seen."""

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        """Handle the beginning of a call."""

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        """Handle the end of a call, the innermost open call of its thread.

        `leave` is None if its end is not known.
        """

    def finished(self) -> None:
        """Write the rest, after all calls have ended."""

    def notes(self) -> list[str]:
        """Return notes on data that are changed in the output."""
        notes = [] if self.cpp.lacks is None else [self.cpp.lacks]
        if self.overlapping:
            notes.append(
                f"{self.overlapping:,} calls overlap others of their thread, as coroutines do: "
                "they are shown to end with the calls around them"
            )
        if self.unended:
            notes.append(f"{self.unended:,} calls had not ended: they are shown to last to the end")
        return notes


def texts(
    prototypes: Prototypes, entry: Entry, leave: Exit | None, limit: int
) -> tuple[str, str, str]:
    """Return arguments, result and errno name of a call, as a trace prints them."""
    arguments = prototypes.format_call(entry.slot, entry.captured, limit, leave)
    result = errno = ""
    if leave is not None and leave.result is not None:
        value = prototypes.format_result(leave.slot, leave, entry, limit)
        result = "" if value is None else value.text
        code = prototypes.failure_errno(leave.slot, leave)
        errno = prototypes.errno_name(code) if code else ""
    return ", ".join([argument.shown for argument in arguments]), result, errno


def names(entry: Entry) -> tuple[str, str]:
    """Return the names of caller and callee, "" if they are not known."""
    slot = entry.slot
    return slot.caller.name if slot.caller else "", slot.callee.name if slot.callee else ""
