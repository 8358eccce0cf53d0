# SPDX-License-Identifier: Apache-2.0
"""The nesting of calls, among the calls that a listener gets.

A filter may have left out calls around a call, so its depth in the recording does not tell.
"""

from __future__ import annotations

from soscope.model.call import Entry, Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
