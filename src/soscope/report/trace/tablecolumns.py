# SPDX-License-Identifier: Apache-2.0
"""The columns of the table of `-c`: title, width, and the words of a row."""

from __future__ import annotations

from _collections_abc import Callable

from soscope.instruments.trace.summary import SummaryRow
from soscope.model.printable import printable
from soscope.report.trace import tablesettings as names
from soscope.report.trace.percentiles import percentile_ns
from soscope.report.words import UNTOLD

UNKNOWN = "-"


class Base:
    """What calls are compared with: a function, and how often it was called."""

    __slots__ = ("calls", "name")

    def __init__(self, name: str, calls: int) -> None:
        self.name = name
        self.calls = calls


class Column:
    """One column.

    `value` is what rows are sorted by, the highest first, None last; `text` shows it. `width` is
    the least; a column without is text, and not a number.
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


def column(name: str, total: SummaryRow, *, inclusive: bool, base: Base | None) -> Column:
    """Return a column of a table whose last line is `total`."""
    if name in names.TIMES:
        return _time(name, total, inclusive=inclusive)
    if name in names.PERCENTILES:
        percent = names.PERCENTILES[name]
        return _nanoseconds(name, lambda row: percentile_ns(row, percent))
    if name == names.CALLS:
        return Column("calls", 9, lambda row: row.calls, lambda row: str(row.calls))
    if name == names.ERRORS:
        return Column("errors", 9, lambda row: row.errors, lambda row: _number(row.errors))
    if name == names.TOTAL:
        return Column(
            "total",
            11,
            lambda row: row.total_ns,
            lambda row: _seconds(None if row is total and not inclusive else row.total_ns),
        )
    if name == names.MIN:
        return _nanoseconds("min", lambda row: row.min_ns)
    if name == names.MAX:
        return _nanoseconds("max", lambda row: row.max_ns)
    if name == names.RATIO:
        return _ratio(total, base)
    return _text(name, total)


def _time(name: str, total: SummaryRow, *, inclusive: bool) -> Column:
    all_ns = total.time_ns(inclusive=inclusive) or 0

    def ns(row: SummaryRow) -> int | None:
        return row.time_ns(inclusive=inclusive)

    def each(row: SummaryRow) -> float | None:
        time = ns(row)
        return time / row.returns if time is not None and row.returns else None

    if name == names.TIME:

        def share(row: SummaryRow) -> str:
            mark = "" if row is total or row.is_told(inclusive=inclusive) else UNTOLD
            return f"{100 * (ns(row) or 0) / all_ns if all_ns else 0:.2f}{mark}"

        return Column("% time", 6, ns, share)
    if name == names.SECONDS:
        return Column("seconds", 11, ns, lambda row: _seconds(ns(row)))
    return _nanoseconds("usecs/call", each)


def _nanoseconds(title: str, value: Callable[[SummaryRow], float | None]) -> Column:
    """Return a column of times in microseconds."""

    def text(row: SummaryRow) -> str:
        ns = value(row)
        return UNKNOWN if ns is None else f"{ns / 1000:.3f}"

    return Column(title, 11, value, text)


def _ratio(total: SummaryRow, base: Base | None) -> Column:
    """Return the column of calls for each call of the base."""

    def text(row: SummaryRow) -> str:
        if row is total or base is None or not base.calls:
            return UNKNOWN
        part = row.calls / base.calls
        return f"{part:.2f}" if part >= 0.1 or not row.calls else f"{part:.2g}"

    title = "calls/-" if base is None else f"calls/{base.name}"
    return Column(title, 7, lambda row: row.calls, text)


def _text(name: str, total: SummaryRow) -> Column:
    """Return a column of names; the last line of the table has none, but that of `name`."""

    def text(row: SummaryRow) -> str:
        if name == names.NAME:
            return printable(row.symbol)
        if row is total:
            return ""
        return printable(row.caller if name == names.CALLER else row.callee) or "?"

    title = {names.NAME: "function"}.get(name, name)
    return Column(title, 0, lambda _: None, text)


def _seconds(ns: int | None) -> str:
    return UNKNOWN if ns is None else f"{ns / 1e9:.9f}"


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else str(count)
