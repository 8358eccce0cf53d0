# SPDX-License-Identifier: Apache-2.0
"""The columns of the table of `-c`: title, width, and the text of a row."""

from __future__ import annotations

from soscope.instruments.trace.summary import SummaryRow
from soscope.model.call import printable
from soscope.report.trace import tablesettings as names
from soscope.report.trace.percentiles import percentile_ns
from soscope.report.words import marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN = "-"


class Base:
    """The base of comparison: a function, and how often it was called."""

    __slots__ = ("calls", "name")

    def __init__(self, name: str, calls: int) -> None:
        self.name = name
        self.calls = calls


class Column:
    """One column.

    `value` is the value to sort rows by, highest first, None last. `text` returns its text.
    `width` is the least width, 0 for text in place of a number.
    """

    __slots__ = ("text", "title", "value", "width")

    def __init__(
        self,
        title: str,
        width: int,
        value: Callable[[SummaryRow], float | None],
        text: Callable[[SummaryRow], str],
    ) -> None:
        self.title = title
        self.width = width
        self.value = value
        self.text = text


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
    return _text(name, total)


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


def _text(name: str, total: SummaryRow) -> Column:
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
