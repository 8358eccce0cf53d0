# SPDX-License-Identifier: Apache-2.0
"""`--graph`: calls between images, as text, JSON or a picture."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.summary import ImageEdge, SummaryRow, edges_of, inside, rows_of
from soscope.model.call import printable
from soscope.report.form import Form
from soscope.report.jsontext import json_document
from soscope.report.output import Output
from soscope.report.tabletext import TableText
from soscope.report.trace import tablesettings as names
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames
from soscope.report.trace.summaryjson import head_of, totals_of
from soscope.report.trace.table import text_of
from soscope.report.trace.tablecolumns import column
from soscope.report.trace.tablesettings import TableSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome

SCHEMA = "soscope/trace-graph/1"
FUNCTIONS = 3  # functions of an edge in the text
_TIMED = (names.TIME, names.SECONDS, names.CALLS, names.ERRORS, names.TOTAL, names.NAME)


class GraphListener(Listener):
    """Writes the graph at the end of a trace: to `output` and, as SVG, to `picture`.

    Each of them may be None. `settings.top` is the number of edges in the text, or None for all.
    """

    def __init__(
        self,
        output: Output | None,
        settings: TableSettings,
        display: Display,
        *,
        form: Form,
        picture: Output | None = None,
    ) -> None:
        self._output = output
        self._picture = picture
        self._top = settings.top
        self._form = form
        self._names = FunctionNames(display)

    def end(self, outcome: TraceOutcome) -> None:
        """Write the graph."""
        rows = rows_of(outcome.programs)
        edges = edges_of(rows)
        timed = any(program.stats is not None for program in outcome.programs)
        if self._output is not None:
            if self._form:
                said = json_document(self._document(outcome, edges))
                self._output.write(self._form.shaped(said))
            else:
                text = self._text(edges, timed=timed)
                outcome.has_marks = text.has_marks
                self._output.write(text)
        if self._picture is not None:
            if not all(row.is_told() for row in rows):
                outcome.has_marks = True  # each function of a line has its time there
            from soscope.report.trace.graphsvg import picture

            title = " ".join(outcome.command) or "calls between images"
            mains = {
                image.name
                for program in outcome.programs
                for image in program.images
                if image.is_main
            }
            self._picture.write(picture(title, edges, mains, self._names.shown))

    def _text(self, edges: list[ImageEdge], *, timed: bool) -> TableText:
        total = SummaryRow("", "", "total", "")
        for edge in edges:
            total.add(edge.sums)
        rows: list[SummaryRow] = []
        shown = edges if self._top is None else edges[: self._top]
        for edge in shown:
            edge.sums.symbol = printable(f"{edge.caller} -> {edge.callee}")
            rows.append(edge.sums)
            few = edge.functions[:FUNCTIONS]
            rows += [
                _row(f"  {printable(self._names.shown(function.symbol))}", [function])
                for function in few
            ]
            rows += _rest("  ", edge.functions[FUNCTIONS:])
        rows += _rest("", [edge.sums for edge in edges[len(shown) :]])
        usual = _TIMED if timed else (names.CALLS, names.NAME)
        # A recording of an older soscope has only one of the two times.
        inclusive = total.total_ns is not None and total.self_ns is None
        columns = [column(name, total, inclusive=inclusive, base=None) for name in usual]
        columns[-1].title = "caller -> callee, and its functions"
        return text_of(columns, rows, total)

    def _document(self, outcome: TraceOutcome, edges: list[ImageEdge]) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            **head_of(outcome),
            "images": [
                {
                    "name": name,
                    "calls": row.calls,
                    "self_ns": row.self_ns,
                    "doubt_ns": row.doubt_ns,
                }
                for name, row in inside(edges).items()
            ],
            "edges": [
                {
                    "caller": edge.sums.caller,
                    "callee": edge.sums.callee,
                    **_sums(edge.sums),
                    "functions": [
                        {
                            "symbol": function.symbol,
                            **self._demangled(function.symbol),
                            **_sums(function),
                        }
                        for function in edge.functions
                    ],
                }
                for edge in edges
            ],
            "totals": totals_of(outcome, sum(edge.sums.calls for edge in edges)),
        }

    def _demangled(self, symbol: str) -> dict[str, object]:
        full = self._names.full(symbol)
        return {} if full is None else {"demangled": full}


def _sums(row: SummaryRow) -> dict[str, object]:
    return {
        "calls": row.calls,
        "errors": row.errors,
        "self_ns": row.self_ns,
        "total_ns": row.total_ns,
        "doubt_ns": row.doubt_ns,
        "lower_bound": row.is_lower_bound,
    }


def _row(name: str, rows: list[SummaryRow]) -> SummaryRow:
    row = SummaryRow("", "", name, "")
    for function in rows:
        row.add(function)
    return row


def _rest(indent: str, rows: list[SummaryRow]) -> list[SummaryRow]:
    """Return a row for hidden functions, if there are any."""
    return [_row(f"{indent}({len(rows):,} more)", rows)] if rows else []
