# SPDX-License-Identifier: Apache-2.0
"""`--tree`: nested calls as in `uftrace replay`; with `-c`, a row for each call path."""

from __future__ import annotations

from soscope.instruments.trace.listener import Nesting
from soscope.instruments.trace.summary import MOST, CallTree, NamedWay, named_ways, way_rank
from soscope.model.call import (
    COLUMN,
    ENDED_EXIT,
    ENDED_KILLED,
    ENDED_RETURN,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Stretch,
    printable,
    time_text,
)
from soscope.prototypes import Prototypes
from soscope.report.output import Form, Output, json_document, members
from soscope.report.trace.display import Display, FunctionNames, TableSettings
from soscope.report.trace.table import head_of, totals_of
from soscope.report.trace.text import LONG, NO_RETURN, TextListener
from soscope.report.words import Heading, marked, table_text, with_outer
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome


# `--tree`: nested calls, as `uftrace replay` shows them.
#
# A call without shown calls inside is one line. Any other call opens a brace, and its end, with the
# result and the duration, is a line of its own.

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
        spent = _UNKNOWN if took is None else time_text(took, COLUMN)
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


# `--tree -c`: a row for each call path, indented below the path that it continues.
#
# A call path takes no longer than the path that it continues, so the longest ones form a tree, too.

SCHEMA = "soscope/trace-tree/1"
_HEADINGS = [
    Heading("total", 11),
    Heading("seconds", 11),
    Heading("calls", 9),
    Heading("errors", 9),
    Heading("function"),
]


class TreeTableListener(CallTree):
    """Writes the rows at the end of the trace. `settings.top` is their number, or None for all."""

    def __init__(self, output: Output, settings: TableSettings, display: Display) -> None:
        super().__init__()
        self._output = output
        self._top = settings.top
        self._names = FunctionNames(display)
        self._indent = display.indent or INDENT
        self._shows_images = False

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Keep the filter, which determines the names of functions."""
        self._shows_images = selection.names_caller

    def end(self, outcome: TraceOutcome) -> None:
        """Write the rows."""
        rows = named_ways(self, outcome.doubt_ns)
        shown = _longest(rows, self._top)
        lines = [_cells(row, self._function(row)) for row in shown]
        if len(shown) < len(rows):
            kept = set(map(id, shown))
            lines.append(
                _cells(
                    _sum([row for row in rows if id(row) not in kept]),
                    f"({len(rows) - len(shown):,} more)",
                )
            )
        if self.beyond.calls:
            rest = NamedWay(("", "", "", ""), None, 0)
            rest.add(self.beyond)
            rest.total_ns = None  # the rows may contain each other
            lines.append(_cells(rest, f"(behind {MOST:,} ways)"))
        whole = _sum(rows)
        whole.doubt_ns = None  # marks are only for the rows
        whole.calls += self.beyond.calls
        if whole.self_ns is not None:
            whole.self_ns += self.beyond.self_ns
        text = table_text(_HEADINGS, lines, _cells(whole, "total"))
        outcome.has_marks = text.has_marks
        self._output.write(text)

    def _function(self, row: NamedWay) -> str:
        caller, callee, symbol, _ = row.names
        name = printable(self._names.shown(symbol))
        if self._shows_images:
            name = f"{printable(caller) or '?'}->{name}@{printable(callee) or '?'}"
        return " " * (self._indent * row.depth) + name


class TreeJsonListener(CallTree):
    """Writes one document at the end of the trace."""

    def __init__(self, output: Output, display: Display, form: Form) -> None:
        super().__init__()
        self._output = output
        self._form = form
        self._names = FunctionNames(display)

    def end(self, outcome: TraceOutcome) -> None:
        """Write the document."""
        rows = named_ways(self, outcome.doubt_ns)
        calls = sum(row.calls for row in rows) + self.beyond.calls
        document = {
            "schema": SCHEMA,
            **head_of(outcome),
            "rows": [self._row(number, row) for number, row in enumerate(rows)],
            "beyond": self.beyond.calls,
            "totals": totals_of(outcome, calls),
        }
        self._output.write(self._form.shaped(json_document(document)))

    def _row(self, number: int, row: NamedWay) -> dict[str, object]:
        caller, callee, symbol, version = row.names
        full = self._names.full(symbol)
        return {
            "id": number,
            **members(row, "above depth"),
            "caller": caller,
            "callee": callee,
            "symbol": symbol,
            **({} if full is None else {"demangled": full}),
            "version": version,
            **members(row, "calls errors self_ns doubt_ns total_ns total_doubt_ns"),
        }


def _longest(rows: list[NamedWay], top: int | None) -> list[NamedWay]:
    """Return the longest rows, with the rows that they continue, in the original order.

    Return at most about `top` rows, or all of them if `top` is None.
    """
    if top is None or len(rows) <= top:
        return rows
    whole = sum(row.total_ns or 0 for row in rows if row.above is None)
    order = sorted(range(len(rows)), key=lambda at: way_rank(rows[at], whole))
    chosen = with_outer(order, lambda at: rows[at].above, top)
    return [row for at, row in enumerate(rows) if at in chosen]


def _sum(rows: list[NamedWay]) -> NamedWay:
    """Return calls, errors and own times of rows, without a total, as they may be nested."""
    whole = NamedWay(("", "", "", ""), None, 0)
    for row in rows:
        whole.calls += row.calls
        if row.errors is not None:
            whole.errors = (whole.errors or 0) + row.errors
        if row.self_ns is not None:
            whole.self_ns = (whole.self_ns or 0) + row.self_ns
        if row.doubt_ns is not None:
            whole.doubt_ns = (whole.doubt_ns or 0) + row.doubt_ns
    return whole


def _cells(row: NamedWay, name: str) -> list[str]:
    return [
        marked(_seconds(row.total_ns), row.total_ns, row.total_doubt_ns),
        marked(_seconds(row.self_ns), row.self_ns, row.doubt_ns),
        str(row.calls),
        "-" if row.errors is None else str(row.errors),
        name,
    ]


def _seconds(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e9:.9f}"
