# SPDX-License-Identifier: Apache-2.0
"""`--tree`: nested calls, as `uftrace replay` shows them.

A call without shown calls inside is one line. Any other call opens a brace, and its end, with the
result and the duration, is a line of its own.
"""

from __future__ import annotations

from soscope.instruments.trace.filters import Nesting
from soscope.model.call import (
    ENDED_EXIT,
    ENDED_KILLED,
    ENDED_RETURN,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Stretch,
)
from soscope.report.output import Output
from soscope.report.trace.display import Display
from soscope.report.trace.stretchtext import time_text
from soscope.report.trace.text import LONG, NO_RETURN, TextListener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome

INDENT = 2  # columns by default
_OPENS = " {"
_UNKNOWN = " " * 10  # in place of an unknown duration
_BAR = " | "


class TreeListener(TextListener):
    """Writes the lines of a tree for each thread, in order of time.

    A call is held back until it is known whether anything is inside of it, as in the text.
    """

    wants_callers = True

    def __init__(self, output: Output, display: Display) -> None:
        super().__init__(output, display)
        self.wants_durations = True
        self._durations = False  # durations are at the left
        self._indent = display.indent or INDENT
        self._nesting = Nesting()
        self._level = 0  # level of the call that is held back

    def events(self, batch: list[Event]) -> None:
        """Add the lines of events, and write complete ones."""
        for event in batch:
            if isinstance(event, Entry):
                self._enter(event)
            elif isinstance(event, Exit):
                if event.entry is not None:  # else the entry was lost, and counted
                    self._leave(event, event.entry)
            elif isinstance(event, Stretch):
                self._stretch(event)
            else:
                self._other(event)
                if isinstance(event, ProcessExit) or (
                    isinstance(event, ProcessStart) and event.event != "fork"
                ):
                    self._nesting.forget(event.pid)
        self._write()

    def _stretch(self, stretch: Stretch) -> None:
        """Add the lines of calls of equal depth without calls inside."""
        self._close(_OPENS)
        level = len(self._nesting.around(stretch.tid, stretch.depth))
        whose = self._whose(stretch.tid)
        time = self._clock.text if self._clock is not None else None
        between = f"{_BAR}{' ' * (self._indent * level)}"
        self._stretches.add_behind_time(
            self._parts, stretch, whose, self._padding - len(whose), time, between
        )

    def caught_up(self, time_ns: int) -> None:
        """Show the open call of the target."""
        entry = self._open
        if entry is not None and time_ns - entry.time_ns >= LONG:
            self._close(_OPENS)
            self._write()

    def end(self, outcome: TraceOutcome) -> None:
        """Write a call that is held back."""
        self._end_held(" <unfinished ...>")
        self._write()

    def _enter(self, entry: Entry) -> None:
        self._close(_OPENS)
        self._level = self._nesting.enter(entry)
        if not entry.entry_only:
            self._open = entry
            return
        shown = ", ".join(self._texts(entry, None))
        ends = ") <no return ...>" if entry.slot.symbol in NO_RETURN else ")"
        head = self._row(entry.time_ns, entry.tid, None, self._level)
        line = f"{head}{self._name(entry)}{shown}{self._end_of(entry, ends)}"
        self._add(line + self._place(entry))
        self._add_stack(entry, head)

    def _leave(self, leave: Exit, entry: Entry) -> None:
        (level, _), ended = self._nesting.leave(leave), leave.ended
        is_whole = entry is self._open and leave.tid == entry.tid and not leave.is_inherited
        if ended in (ENDED_EXIT, ENDED_KILLED):
            # The open calls of a process that ends are not worth a line each.
            if is_whole:
                self._end_held(" <no return ...>" if ended == ENDED_EXIT else " <unfinished ...>")
        elif is_whole:
            self._open = None
            head = self._row(entry.time_ns, entry.tid, leave.duration_ns, level)
            shown = ", ".join(self._texts(entry, leave))
            self._add_result(f"{head}{self._name(entry)}{shown}) ", leave, self._place(entry))
            self._add_stack(entry, head)
        else:
            self._close(_OPENS)
            head = self._row(leave.time_ns, leave.tid, leave.duration_ns, level)
            self._add_result(f"{head}}} ", leave, self._comment(leave, entry))

    def _comment(self, leave: Exit, entry: Entry) -> str:
        """Return the text behind a closing brace: the function, and its output arguments."""
        name = self._names.short(leave.slot.symbol)
        known = self._prototypes.known_at_entry(leave.slot)
        late: list[str] = []
        if known is not None and not leave.is_inherited and leave.ended == ENDED_RETURN:
            late = self._texts(entry, leave)[known:]
        return f" /* {name}{'(..., ' + ', '.join(late) + ')' if late else ''} */"

    def _end_held(self, how: str) -> None:
        """Write a call that is held back and does not end, in one line."""
        entry = self._open
        if entry is not None:
            head = self._row(entry.time_ns, entry.tid, None, self._level)
            self._open = None
            self._add(f"{head}{self._name(entry)}{self._known(entry)}){how}{self._place(entry)}")
            self._add_stack(entry, head)

    def _close(self, how: str) -> None:
        """Open the brace of a call that is held back, as other events follow inside of it."""
        del how
        self._end_held(_OPENS)

    def _known(self, entry: Entry) -> str:
        """Return the arguments that are known before a call returns."""
        known = self._prototypes.known_at_entry(entry.slot)
        texts = self._texts(entry, None)
        shown = texts if known is None else texts[:known]
        return ", ".join([*shown, *(["..."] if len(shown) < len(texts) else [])])

    def _name(self, entry: Entry) -> str:
        return self._heads.get(entry.slot) or self._head(entry.slot)

    def _row(self, time_ns: int, tid: int, took: int | None, level: int) -> str:
        """Return the text before a function or before its closing brace."""
        spent = _UNKNOWN if took is None else time_text(took)
        return f"{self._start(time_ns, tid)}{spent}{_BAR}{' ' * (self._indent * level)}"

    def _place(self, entry: Entry) -> str:
        """Return where a call was made, if asked for, as a comment behind it."""
        place = "" if self._adorned is None else self._adorned.place(entry)
        return place and f" /* {place.rstrip()} */"

    def _add(self, line: str) -> None:
        self._parts.append(f"{line}\n")

    def _add_stack(self, entry: Entry, head: str) -> None:
        """Add the stack of a call below its line, in the column of functions."""
        text = self._below(entry)
        if text:
            times, _, indent = head.rpartition(_BAR)
            lead = f"{' ' * len(times)}{_BAR}{indent}"
            self._parts.append("".join([f"{lead}{line}\n" for line in text.splitlines()]))

    def _add_result(self, line: str, leave: Exit, comment: str) -> None:
        hidden = 0 if self._adorned is None else self._adorned.hidden(line)
        self._add(f"{line:{self._padding + hidden}}= {self._result(leave)}{comment}")
