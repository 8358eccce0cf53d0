# SPDX-License-Identifier: Apache-2.0
"""`--tree -c`: a row for each call path, indented below the path that it continues.

A call path takes no longer than the path that it continues, so the longest ones form a tree, too.
"""

from __future__ import annotations

from soscope.instruments.trace.summary import MOST, CallTree, NamedWay, named_ways, way_rank
from soscope.model.call import printable
from soscope.prototypes import Prototypes
from soscope.report.form import Form
from soscope.report.jsontext import json_document
from soscope.report.output import Output
from soscope.report.tabletext import Heading, table_text
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames
from soscope.report.trace.summaryjson import head_of, totals_of
from soscope.report.trace.tablesettings import TableSettings
from soscope.report.trace.tree import INDENT
from soscope.report.words import marked
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome

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
            "above": row.above,
            "depth": row.depth,
            "caller": caller,
            "callee": callee,
            "symbol": symbol,
            **({} if full is None else {"demangled": full}),
            "version": version,
            "calls": row.calls,
            "errors": row.errors,
            "self_ns": row.self_ns,
            "doubt_ns": row.doubt_ns,
            "total_ns": row.total_ns,
            "total_doubt_ns": row.total_doubt_ns,
        }


def _longest(rows: list[NamedWay], top: int | None) -> list[NamedWay]:
    """Return the rows that take longest, in order, with the rows that they continue."""
    if top is None or len(rows) <= top:
        return rows
    chosen: set[int] = set()
    whole = sum(row.total_ns or 0 for row in rows if row.above is None)
    order = sorted(range(len(rows)), key=lambda at: way_rank(rows[at], whole))
    for number in order:
        at: int | None = number
        way: list[int] = []
        while at is not None and at not in chosen:
            way.append(at)
            at = rows[at].above
        if len(chosen) + len(way) > top and chosen:
            break
        chosen.update(way)
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
