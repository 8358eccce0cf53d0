# SPDX-License-Identifier: Apache-2.0
"""Distributions of durations: percentiles, and a histogram for people."""

from __future__ import annotations

from soscope.instruments.trace.summary import SummaryRow
from soscope.report.tabletext import TableText
from soscope.report.words import UNTOLD, marked, plural

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
