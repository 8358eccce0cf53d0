# SPDX-License-Identifier: Apache-2.0
"""The table of `-c` and `--count-only` with ltrace's and strace's columns; its JSON."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome, TraceProgramOutcome
from soscope.instruments.trace.summary import SummaryRow, by_caller, by_function, by_image, rows_of
from soscope.model.call import importance, printable
from soscope.model.image import REFUSAL_NAMES
from soscope.model.record import Record
from soscope.proc.status import signal_name
from soscope.prototypes import Prototypes
from soscope.report.output import JSON, Form, Output, json_document, members
from soscope.report.trace import display as names
from soscope.report.trace.display import PERCENTILES, Display, FunctionNames, TableSettings
from soscope.report.words import (
    UNTOLD,
    Heading,
    TableText,
    delay_members,
    marked,
    plural,
    table_text,
)
from soscope.select.filter import Selection, compile_symbol
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Distributions of durations: percentiles, and a histogram for people.

_WIDTH = 40  # width of the longest bar


def percentile_ns(row: SummaryRow, percent: int) -> int | None:
    """Return the `percent` percentile of a row's durations in ns, None if not known.

    It is at most a sixteenth too high.
    """
    if not row.durations or row.min_ns is None or row.max_ns is None:
        return None
    from soscope.recording.reduce import bounds_of

    wanted = -(-sum(row.durations.values()) * percent // 100)
    for index in sorted(row.durations):
        wanted -= row.durations[index]
        if wanted <= 0:
            return min(max(bounds_of(index)[1] - 1, row.min_ns), row.max_ns)
    return row.max_ns


def powers_of(row: SummaryRow) -> list[tuple[int, int, int]]:
    """Return (ns, ns, returns) for each power of two between the shortest and the longest.

    The returns took at least the first and less than the second time. The first class begins at
    0.
    """
    if not row.durations:
        return []
    from soscope.recording.reduce import bounds_of

    counts: dict[int, int] = {}
    for index, returns in row.durations.items():
        power = max(bounds_of(index)[0].bit_length() - 1, 0)
        counts[power] = counts.get(power, 0) + returns
    return [
        (1 << power if power else 0, 2 << power, counts.get(power, 0))
        for power in range(min(counts), max(counts) + 1)
    ]


def histogram(row: SummaryRow, name: str) -> TableText:
    """Return the lines of a histogram of durations."""
    powers = powers_of(row)
    if not powers:
        return TableText("", has_marks=False)
    most = max(count for _, _, count in powers)
    head = f"\n{name}: {plural(sum(count for _, _, count in powers), 'return')}"
    parts = [
        f"{percent} % within {marked(_text(ns), ns, row.doubt_of_call_ns)}"
        for percent in (50, 90, 99)
        if (ns := percentile_ns(row, percent)) is not None
    ]
    wide = max(len(f"{most:,}"), 9)
    lines = [
        f"  {_text(first):>8} … {_text(last):>8} {count:>{wide},} |"
        f"{'#' * -(-count * _WIDTH // most):<{_WIDTH}}|"
        for first, last, count in powers
    ]
    return TableText(
        "\n".join([f"{head}; {', '.join(parts)}", *lines, ""]),
        has_marks=any(part.endswith(UNTOLD) for part in parts),
    )


def _text(ns: int) -> str:
    """Return a time in three digits: 512ns, 1.02us, 33.6ms."""
    for unit, size in (("ns", 1), ("us", 1000), ("ms", 10**6)):
        if ns < 1000 * size:
            return f"{ns}ns" if size == 1 else f"{ns / size:#.3g}".rstrip(".") + unit
    return f"{ns / 10**9:#.3g}".rstrip(".") + "s"


# `--json` with `-c` or `--count-only`: one document, soscope/trace-summary/1.

SCHEMA = "soscope/trace-summary/1"


class SummaryJsonListener(Listener):
    """Writes the document at the end of the trace."""

    def __init__(
        self,
        output: Output,
        settings: TableSettings | None = None,
        display: Display | None = None,
        form: Form | None = None,
    ) -> None:
        self._output = output
        self._form = form or Form(JSON)
        self._names = FunctionNames(display or Display())
        self._settings = settings

    def end(self, outcome: TraceOutcome) -> None:
        """Write the document."""
        said = json_document(document(outcome, self._settings, self._names))
        self._output.write(self._form.shaped(said))


def document(
    outcome: TraceOutcome,
    settings: TableSettings | None = None,
    names: FunctionNames | None = None,
) -> dict[str, object]:
    """Return the document. Times are nanoseconds, and null stands for unknown values.

    Only `settings.needs_durations` is used. All rows are included, in the usual order.
    """
    has_durations = settings is not None and settings.needs_durations
    rows = rows_of(outcome.programs)
    names = names or FunctionNames(Display())
    return {
        "schema": SCHEMA,
        **head_of(outcome),
        "rows": [
            {
                "caller": row.caller or None,
                "callee": row.callee,
                "symbol": row.symbol,
                **_demangled(names.full(row.symbol)),
                **members(row, "version calls errors self_ns total_ns doubt_ns min_ns max_ns"),
                "lower_bound": row.is_lower_bound,
                **(_durations(row) if has_durations else {}),
            }
            for row in rows
        ],
        "totals": totals_of(outcome, sum(row.calls for row in rows)),
        "images": [image for program in outcome.programs for image in _images(program)],
    }


def head_of(outcome: TraceOutcome) -> dict[str, object]:
    """Return the members about the command, its end, and the cost of tracing."""
    return {
        "command": outcome.command,
        "arch": outcome.arch or None,
        "engine": outcome.engine or None,
        "exit": {
            "status": outcome.status,
            "signal": None if outcome.signal is None else signal_name(outcome.signal),
        },
        "cost": None if outcome.cost is None else outcome.cost.document(),
        "executed_by_children": outcome.executed.document(),
    }


def totals_of(outcome: TraceOutcome, calls: int) -> dict[str, object]:
    """Return the member about whether these are all calls."""
    return {
        "calls": calls,
        "dropped": outcome.dropped_count,
        "complete": not outcome.shortfalls,
        **delay_members(outcome.delays),
    }


def _durations(row: SummaryRow) -> dict[str, object]:
    """Return percentiles, and [ns, ns, returns] for each power of two."""
    known: dict[str, object] = {
        f"{name}_ns": percentile_ns(row, percent) for name, percent in PERCENTILES.items()
    }
    known["histogram"] = powers_of(row)
    return known


def _images(program: TraceProgramOutcome) -> list[dict[str, object]]:
    """Return the hooked slots and the other slots of each image of a program."""
    refused: dict[int, list[dict[str, str]]] = {}
    partial: dict[int, dict[str, None]] = {}
    for slot in program.slots:
        if slot.caller is None:
            continue
        if slot.is_hooked and slot.partial:
            partial.setdefault(slot.caller.index, {})[slot.symbol] = None
        if not slot.is_hooked:
            reason = REFUSAL_NAMES.get(slot.refusal, "unknown")
            refused.setdefault(slot.caller.index, []).append(
                {"symbol": slot.symbol, "reason": reason}
            )
    return [
        {
            "name": image.name,
            "path": image.path,
            "hooked_slots": image.slots_hooked,
            "not_hooked": refused.get(image.index, []),
            "lower_bounds": list(partial.get(image.index, ())),
            "without_room": program.without_room.get(image.index, 0),
        }
        for image in program.images
    ]


def _demangled(name: str | None) -> dict[str, object]:
    """Return the member that only names of C++ have."""
    return {} if name is None else {"demangled": name}


# The columns of the table of `-c`: title, width, and the text of a row.

UNKNOWN = "-"


class Base(Record):
    """The base of comparison: a function, and how often it was called."""

    name: str
    calls: int


class Column(Record):
    """One column.

    `value` is the value to sort rows by, highest first, None last. `text` returns its text.
    `width` is the least width, 0 for text in place of a number.
    """

    title: str
    width: int
    value: Callable[[SummaryRow], float | None]
    text: Callable[[SummaryRow], str]


def column(
    name: str, total: SummaryRow, *, inclusive: bool, base: Base | None, marks: bool = False
) -> Column:
    """Return a column of a table whose last line is `total`.

    A share has a mark if its time is not larger than its error. The other times of a row have
    marks if `marks` is set, which is for tables without shares.
    """
    if name in names.TIMES:
        return _time(name, total, inclusive=inclusive, marks=marks)
    if name in names.PERCENTILES:
        percent = names.PERCENTILES[name]
        return _nanoseconds(name, lambda row: percentile_ns(row, percent), marks=marks)
    if name == names.CALLS:
        return Column("calls", 9, lambda row: row.calls, lambda row: str(row.calls))
    if name == names.ERRORS:
        return Column("errors", 9, lambda row: row.errors, lambda row: _number(row.errors))
    if name == names.TOTAL:
        return _seconds(
            "total",
            lambda row: None if row is total and not inclusive else row.total_ns,
            marks=marks,
        )
    if name == names.MIN:
        return _nanoseconds("min", lambda row: row.min_ns, marks=marks)
    if name == names.MAX:
        return _nanoseconds("max", lambda row: row.max_ns, marks=marks)
    if name == names.RATIO:
        return _ratio(total, base)
    return _text_tablecolumns(name, total)


def _time(name: str, total: SummaryRow, *, inclusive: bool, marks: bool) -> Column:
    all_ns = total.time_ns(inclusive=inclusive) or 0

    def ns(row: SummaryRow) -> int | None:
        return row.time_ns(inclusive=inclusive)

    def each(row: SummaryRow) -> float | None:
        time = ns(row)
        return time / row.returns if time is not None and row.returns else None

    if name == names.TIME:

        def share(row: SummaryRow) -> str:
            part = f"{100 * (ns(row) or 0) / all_ns if all_ns else 0:.2f}"
            return part if row is total else marked(part, ns(row), row.doubt_ns)

        return Column("% time", 6, ns, share)
    if name == names.SECONDS:
        return _seconds("seconds", ns, marks=marks)
    return _nanoseconds("usecs/call", each, marks=marks)


def _seconds(title: str, value: Callable[[SummaryRow], int | None], *, marks: bool) -> Column:
    """Return a column of times of all calls."""

    def text(row: SummaryRow) -> str:
        ns = value(row)
        shown = UNKNOWN if ns is None else f"{ns / 1e9:.9f}"
        return marked(shown, ns, row.doubt_ns) if marks else shown

    return Column(title, 11, value, text)


def _nanoseconds(title: str, value: Callable[[SummaryRow], float | None], *, marks: bool) -> Column:
    """Return a column of times of a call in microseconds."""

    def text(row: SummaryRow) -> str:
        ns = value(row)
        shown = UNKNOWN if ns is None else f"{ns / 1000:.3f}"
        return marked(shown, ns, row.doubt_of_call_ns) if marks else shown

    return Column(title, 11, value, text)


def _ratio(total: SummaryRow, base: Base | None) -> Column:
    """Return the column with the number of calls for each call of the base."""

    def text(row: SummaryRow) -> str:
        if row is total or base is None or not base.calls:
            return UNKNOWN
        part = row.calls / base.calls
        return f"{part:.2f}" if part >= 0.1 or not row.calls else f"{part:.2g}"

    title = "calls/-" if base is None else f"calls/{base.name}"
    return Column(title, 7, lambda row: row.calls, text)


def _text_tablecolumns(name: str, total: SummaryRow) -> Column:
    """Return a column of names. The table's last line only has a name in column `name`."""

    def text(row: SummaryRow) -> str:
        if name == names.NAME:
            return printable(row.symbol)
        if row is total:
            return ""
        return printable(row.caller if name == names.CALLER else row.callee) or "?"

    title = {names.NAME: "function"}.get(name, name)
    return Column(title, 0, lambda _: None, text)


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else str(count)


# Times of a call are microseconds with three digits behind the point, because most calls take less
# than one microsecond. A `-` stands for an unknown value. Each row is one line of words for awk
# and sort, whatever the width of the terminal is.

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
