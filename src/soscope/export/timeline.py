# SPDX-License-Identifier: Apache-2.0
"""Calls as slices of their threads' time: each ends before the one that it is nested in.

Viewers of traces know nothing else. A coroutine may leave a call open while others of its thread
end; and events may have been lost. Then the calls above end where the one below does, and are
counted in `overlapping`.
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
    """Takes events, and tells which call begins and which ends: in `opened` and `closed`.

    `first_ns` and `last_ns` are the times of the first and of the last event, CLOCK_REALTIME.
    `cpp` names functions of C++.
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
        """Take what decides how arguments look."""
        self.prototypes = prototypes

    def events(self, batch: list[Event]) -> None:
        """Tell of calls that begin and end."""
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
        """End the calls that are open."""
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
        """Return the time of a thread's next event: none is earlier than the one before.

        Times are converted from ticks, each with an error of its own.
        """
        self._latest[thread] = time_ns = max(time_ns, self._latest.get(thread, 0))
        return time_ns

    def _end(self, entry: Entry, leave: Exit) -> None:
        thread = entry.pid, entry.tid
        calls = self._open.get(thread, [])
        if not any(entry is call for call in reversed(calls)):
            return  # ended by one below it
        time_ns = self._forward(thread, leave.time_ns)
        self._seen(time_ns)
        while calls[-1] is not entry:
            self.overlapping += 1
            self.closed(thread, calls.pop(), None, time_ns)
        self.closed(thread, calls.pop(), leave, time_ns)

    # ---- for formats ----

    def started(self, event: ProcessStart) -> None:
        """Hear of a process."""

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        """Hear of a call whose end was not to be seen."""

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        """Hear of a call that begins."""

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        """Hear of a call that ends: the last that has begun of those open in its thread.

        `leave` is None where its end is not known.
        """

    def finished(self) -> None:
        """Write what is left: all calls have ended."""

    def notes(self) -> list[str]:
        """Say what does not look as it was."""
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
    """Return arguments, result and name of the errno of a call, as a trace prints them."""
    arguments = prototypes.format_call(entry.slot, entry.captured, limit, leave)
    result = errno = ""
    if leave is not None and leave.result is not None:
        value = prototypes.format_result(leave.slot, leave, entry, limit)
        result = "" if value is None else value.text
        code = prototypes.failure_errno(leave.slot, leave)
        errno = prototypes.errno_name(code) if code else ""
    return ", ".join([argument.shown for argument in arguments]), result, errno


def names(entry: Entry) -> tuple[str, str]:
    """Return the names of caller and callee, "" where they are not known."""
    slot = entry.slot
    return slot.caller.name if slot.caller else "", slot.callee.name if slot.callee else ""
