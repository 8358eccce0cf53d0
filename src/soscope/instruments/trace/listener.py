# SPDX-License-Identifier: Apache-2.0
"""Listeners: they receive the events of a running trace, and print or count them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.model.call import Entry, Event, Exit
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


# Listeners: they get the events of a trace while it runs.
#
# The instrument does not print. Its user passes in a listener, and the reports are listeners. (A
# *sink* of the recording gets raw chunks; a listener gets calls.)


class Listener:
    """Takes the events of one trace, in order of time. This base class ignores them.

    The calls come in the order meet, begin, begun, any number of `events` and `caught_up`, end. A
    listener must not disturb the target, so it handles errors of its output itself.
    `takes_stretches` means that events may be Stretches. Without `wants_durations`, calls that do
    not wait may seem to take no time. `shown` counts the calls that it has let through, and is
    None if it lets all through. With `wants_callers` it gets, before a chosen call, all calls
    around it whose own end still decides.
    """

    takes_stretches = False
    wants_durations = True
    wants_callers = False
    shown: int | None = None

    def meet(self, programs: Programs) -> None:
        """Take the programs. They have the images. Called before `begin`."""

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Get ready for the calls that the filter `selection` chooses."""

    def begun(self) -> None:
        """Note that the command runs, or that all processes are hooked."""

    def events(self, batch: list[Event]) -> None:
        """Take a batch of events."""

    def caught_up(self, time_ns: int) -> None:
        """Note that all events up to a time have been passed on."""

    def end(self, outcome: TraceOutcome) -> None:
        """Finish. No event will follow."""


class Destination:
    """The place where a listener writes to, as seen by the trace. This base class is none."""

    __slots__ = ()
    spent_ns = 0  # time spent on writing and on waiting for the reader

    @property
    def file(self) -> tuple[int, int] | None:
        """Return device and inode of a regular file, None for other outputs."""
        return None

    def begin(self) -> None:
        """Discard the output of an earlier trace, as this one has begun."""

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Call `meanwhile` often while the reader is slow. If it returns False, stop writing."""
        del meanwhile


def stack_remarks(totals: dict[str, object]) -> list[str]:
    """Return a line for each loss of stacks in `totals`, the totals of a trace."""
    said = totals.get("stacks")
    if not isinstance(said, dict):
        return []
    lost, notes = said.get("lost"), said.get("notes")
    lines = [str(note) for note in notes] if isinstance(notes, list) else []
    if isinstance(lost, int) and lost:
        lines.append(f"{lost:,} calls have no stack: there was no room for more")
    return lines


# The nesting of calls, among the calls that a listener gets.
#
# A filter may have left out calls around a call, so its depth in the recording does not tell.


class CallAround:
    """An open call, and `what` its listener keeps with it."""

    __slots__ = ("entry", "what")

    def __init__(self, entry: Entry, what: Any) -> None:
        self.entry = entry
        self.what = what


class Nesting:
    """The open calls of each thread, outermost first."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[int, list[CallAround]] = {}

    def around(self, tid: int, depth: int) -> list[CallAround]:
        """Return the calls around a call of `depth` that begins."""
        calls = self._open.setdefault(tid, [])
        while calls and calls[-1].entry.depth >= depth:  # the call ended unseen
            calls.pop()
        return calls

    def enter(self, entry: Entry, what: Any = None) -> int:
        """Add a call that begins. Return how many calls are around it."""
        calls = self.around(entry.tid, entry.depth)
        level = len(calls)
        if not entry.entry_only:
            calls.append(CallAround(entry, what))
        return level

    def leave(self, leave: Exit) -> tuple[int, CallAround | None]:
        """Take the end of a call. Return how many calls are around it, and the call, if known.

        A forked child that returns from a call of its parent is inside of the calls that the
        parent was inside of then.
        """
        entry, calls = leave.entry, self._open.get(leave.tid, [])
        level = _place(calls, entry)
        if level is not None:
            ended = calls[level]
            del calls[level:]
            return level, ended
        if entry is None:
            return len(calls), None
        origin = self._open.get(entry.tid, [])
        level = _place(origin, entry)
        call = None if level is None else origin[level]
        if level is None:
            level = min(entry.depth, len(origin))
        if leave.is_inherited:
            self._open[leave.tid] = origin[:level]
        elif call is not None:  # a coroutine can end on another thread than it began on
            origin.remove(call)
        return level, call

    def forget(self, tid: int) -> None:
        """Forget the calls of a thread that has ended, or executes another program."""
        self._open.pop(tid, None)


def _place(calls: list[CallAround], entry: Entry | None) -> int | None:
    """Return the index of a call among open ones, searched from the last one."""
    for at in range(len(calls) - 1, -1, -1):
        if calls[at].entry is entry:
            return at
    return None
