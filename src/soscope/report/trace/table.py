# SPDX-License-Identifier: Apache-2.0
"""The table of `-c` and `--count-only`, in the columns of ltrace and strace.

Times of a call are microseconds with three digits behind the point, as most calls take less than
one. A `-` stands for unknown values. Each row is one line of words for awk and sort, whatever the
terminal is.
"""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.summary import SummaryRow, by_caller, by_function, by_image, rows_of
from soscope.model.call import importance, printable
from soscope.prototypes import Prototypes
from soscope.report.output import Output
from soscope.report.tabletext import Heading, TableText, table_text
from soscope.report.trace import tablesettings as names
from soscope.report.trace.display import Display
from soscope.report.trace.names import FunctionNames
from soscope.report.trace.percentiles import histogram
from soscope.report.trace.tablecolumns import Base, Column, column
from soscope.report.trace.tablesettings import TableSettings
from soscope.select.filter import Selection, compile_symbol
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.outcome import TraceOutcome


FEW = 20  # rows that are compared with one of them
HISTOGRAMS = 10  # histograms if no number of rows is given
_BY_NAME = (names.NAME, names.CALLER, names.CALLEE)  # columns in alphabetical order


class SummaryListener(Listener):
    """Writes the table at the end of the trace."""

    def __init__(
        self,
        output: Output,
        settings: TableSettings | None = None,
        display: Display | None = None,
    ) -> None:
        self._output = output
        self._function_names = FunctionNames(display or Display())
        self._settings = settings or TableSettings()
        self._selection: Selection | None = None

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Keep the filter, which determines the form of the table."""
        self._selection = selection

    def end(self, outcome: TraceOutcome) -> None:
        """Write the table, unless the program ran untraced, which a note explains."""
        if outcome.untraced and not outcome.programs:
            return
        timed = any(program.stats is not None for program in outcome.programs)
        rows = rows_of(outcome.programs)
        shown = self._function_names.shown
        text = table(rows, self._settings, self._selection, timed=timed, name_of=shown)
        outcome.has_marks = text.has_marks
        self._output.write(text)


def table(
    rows: list[SummaryRow],
    settings: TableSettings,
    selection: Selection | None = None,
    *,
    timed: bool,
    name_of: Callable[[str], str] = str,
) -> TableText:
    """Return the table of rows, one for each pair of images, function and version.

    `name_of` returns a function's name as it is shown. `timed` means that there are times and
    errors. `selection` is the filter that chose the calls.
    """
    in_pairs = not settings.by and (
        (selection is not None and selection.by_image)
        or bool({names.CALLER, names.CALLEE} & set(settings.columns))
    )
    base = _base(rows, selection) if settings.by == names.BY_CALLER else None
    if not in_pairs:
        merge = {names.BY_CALLER: by_caller, names.BY_IMAGE: by_image}
        rows = merge.get(settings.by, by_function)(rows)
    total = SummaryRow("", "", "total", "")
    for row in rows:
        total.add(row)
        row.symbol = name_of(row.symbol)
    if len(rows) > FEW or len(rows) < 2:
        base = None
    # A recording of an older soscope has only one of the two times.
    inclusive = settings.inclusive or (total.total_ns is not None and total.self_ns is None)

    usual = _usual(settings, timed=timed, in_pairs=in_pairs, compares=base is not None)
    marks = names.TIME not in (settings.columns or usual)

    def make(name: str) -> Column:
        made = column(name, total, inclusive=inclusive, base=base, marks=marks)
        if name == names.CALLEE and settings.by == names.BY_IMAGE:
            made.title = "image"
        return made

    columns = [make(name) for name in settings.columns or usual]
    rows = _sorted(rows, settings.sort or names.SECONDS, make, inclusive=inclusive)
    shown = rows if settings.top is None else rows[: settings.top]
    if len(shown) < len(rows):
        rest = SummaryRow("", "", f"({len(rows) - len(shown):,} more)", "")
        for row in rows[len(shown) :]:
            rest.add(row)
        shown = [*shown, rest]
        if settings.by == names.BY_IMAGE:
            rest.callee = rest.symbol
    text = text_of(columns, shown, total)
    if settings.histogram:
        most = HISTOGRAMS if settings.top is None else settings.top
        parts = [text, *(histogram(row, _name(row)) for row in rows[:most])]
        text = TableText("".join(parts), has_marks=any(part.has_marks for part in parts))
    return text


def _usual(settings: TableSettings, *, timed: bool, in_pairs: bool, compares: bool) -> list[str]:
    """Return the default columns of a table."""
    columns = list(names.TIMES) if timed else []
    columns += [names.CALLS]
    if compares:
        columns += [names.RATIO]
    if timed:
        columns += [names.ERRORS, names.TOTAL, names.MIN]
        columns += names.PERCENTILES if settings.histogram else ()
        columns += [names.MAX]
    if settings.by == names.BY_IMAGE:
        return [*columns, names.CALLEE]
    if in_pairs or settings.by == names.BY_CALLER:
        columns += [names.CALLER]
    if in_pairs:
        columns += [names.CALLEE]
    return [*columns, names.NAME]


def _sorted(
    rows: list[SummaryRow], name: str, make: Callable[[str], Column], *, inclusive: bool
) -> list[SummaryRow]:
    """Return the rows sorted by a column. Equal rows keep their order.

    Times that are not larger than their possible error come last, unless they matter.
    """
    whole = sum(row.time_ns(inclusive=inclusive) or 0 for row in rows)
    by = make(name)
    if name in _BY_NAME:
        return sorted(rows, key=by.text)

    def value(row: SummaryRow) -> tuple[int, float]:
        key = by.value(row)
        time = row.time_ns(inclusive=inclusive or name == names.TOTAL)
        rank = importance(time, row.doubt_ns, whole) if name in names.WHOLE_TIMES else 0
        return rank, 1.0 if key is None else -key

    return sorted(rows, key=value)


def _base(rows: list[SummaryRow], selection: Selection | None) -> Base | None:
    """Return the called function that the filter lists first, None if there is no single one."""
    for word in () if selection is None else selection.words:
        if word.option != "-e" or word.kind != layout.RULE_INCLUDE or word.symbol.is_any:
            continue
        pattern = compile_symbol(word.symbol)
        named = [row for row in rows if pattern.matches(row.symbol.encode(errors="replace"))]
        symbols = {row.symbol for row in named}
        if symbols:
            calls = sum(row.calls for row in named)
            return Base(symbols.pop(), calls) if len(symbols) == 1 else None
    return None


def _name(row: SummaryRow) -> str:
    """Return the name of a row for a line of its own."""
    if not row.symbol:
        return row.callee or "?"
    return printable(f"{row.symbol} by {row.caller}" if row.caller else row.symbol)


def text_of(columns: list[Column], rows: list[SummaryRow], total: SummaryRow) -> TableText:
    """Return the rows as lines, below titles, with the sum at the end."""
    texts = [[each.text(row) for each in columns] for row in (*rows, total)]
    if columns and not columns[-1].width and not texts[-1][-1]:
        texts[-1][-1] = total.symbol
    headings = [Heading(each.title, each.width) for each in columns]
    return table_text(headings, texts[:-1], texts[-1])
