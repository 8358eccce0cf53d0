# SPDX-License-Identifier: Apache-2.0
"""The table of `-c` and `--count-only`, in the columns that ltrace's and strace's users know.

Times of a call are microseconds with three digits behind the point, as most calls take
less than one; the errors column has a `-` where failures cannot be told. Each row is one
line of words for awk and sort, whatever the terminal is.
"""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.summary import SummaryRow, by_function, rows_of
from soscope.prototypes import Prototypes
from soscope.report.output import Output
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome

UNKNOWN = "-"


class SummaryListener(Listener):
    """Writes the table when the trace has ended."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._by_image = False

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Take the form of the table."""
        self._by_image = selection.by_image

    def end(self, outcome: TraceOutcome) -> None:
        """Write the table."""
        timed = any(program.stats is not None for program in outcome.programs)
        rows = rows_of(outcome.programs)
        self._output.write(table(rows, timed=timed, by_image=self._by_image))


def table(rows: list[SummaryRow], *, timed: bool, by_image: bool) -> str:
    """Return the table; `timed`: with times and errors, `by_image`: with both images.

    Without images, the rows of one function are taken together.
    """
    if not by_image:
        rows = by_function(rows)
    total = SummaryRow("", "", "total", "")
    for row in rows:
        total.add(row)
    columns: list[tuple[str, int, bool]] = []  # title, least width, is a number
    if timed:
        columns += [("% time", 6, True), ("seconds", 11, True), ("usecs/call", 11, True)]
    columns += [("calls", 9, True)]
    if timed:
        columns += [("errors", 9, True), ("min", 11, True), ("max", 11, True)]
    if by_image:
        columns += [("caller", 0, False), ("callee", 0, False)]
    columns += [("function", 20, False)]
    cells = [_cells(row, total, timed=timed, by_image=by_image) for row in rows]
    end = _cells(total, total, timed=timed, by_image=by_image)
    widths = [
        max(least, len(title), *(len(line[at]) for line in (*cells, end)))
        for at, (title, least, _) in enumerate(columns)
    ]

    def show(line: list[str]) -> str:
        parts = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, (_, _, number) in zip(line, widths, columns, strict=True)
        ]
        return " ".join(parts).rstrip() + "\n"

    titles = [title for title, _, _ in columns]
    if timed:
        titles[0] = "% time"
    rule = " ".join("-" * width for width in widths) + "\n"
    return "".join([show(titles), rule, *(show(line) for line in cells), rule, show(end)])


def _cells(row: SummaryRow, total: SummaryRow, *, timed: bool, by_image: bool) -> list[str]:
    """Return the words of one row."""
    cells: list[str] = []
    if timed:
        share = 100 * (row.total_ns or 0) / total.total_ns if total.total_ns else 0
        each = UNKNOWN
        seconds = UNKNOWN
        if row.total_ns is not None and row.returns:
            each = f"{row.total_ns / row.returns / 1000:.3f}"
            seconds = f"{row.total_ns / 1e9:.9f}"
        cells += [f"{share:.2f}", seconds, each]
    cells.append(str(row.calls))
    if timed:
        cells.append(UNKNOWN if row.errors is None else str(row.errors))
        cells += [
            UNKNOWN if time is None else f"{time / 1000:.3f}" for time in (row.min_ns, row.max_ns)
        ]
    if by_image:
        if row is total:
            cells += ["", ""]
        else:
            cells += [row.caller or "?", row.callee or "?"]
    cells.append(row.symbol)
    return cells
