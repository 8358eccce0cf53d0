# SPDX-License-Identifier: Apache-2.0
"""Reduces the agent's counts to one row for each function and pair of images."""

from __future__ import annotations

from soscope.model.call import Cell, importance, is_told
from soscope.model.image import ERROR_NONE, TracedSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.instruments.trace.outcome import TraceProgramOutcome


class SummaryRow:
    """The calls of one function.

    `caller` and `callee` are names of images, "" if unknown. `returns` are the calls whose end
    was seen, and `total_ns`, `min_ns` and `max_ns` belong to them; they are None if there are
    none. `self_ns` is `total_ns` without the time of observed calls inside these, so its sum over
    all rows is the time of all calls. It is also None if an older recording does not have it.
    `doubt_ns` is the possible error of each of the two, which is the cost of the hooks, None if
    not known. `durations` are numbers of returns by class of duration (`recording.durations`),
    None if they were not asked for or are not known. `errors` is None if failures cannot be told,
    because nothing was timed or the function is unknown. `is_lower_bound` means that further
    calls may not have been seen.
    """

    __slots__ = (
        "callee",
        "caller",
        "calls",
        "doubt_ns",
        "durations",
        "errors",
        "is_lower_bound",
        "max_ns",
        "min_ns",
        "returns",
        "self_ns",
        "symbol",
        "total_ns",
        "version",
    )

    def __init__(self, caller: str, callee: str, symbol: str, version: str) -> None:
        self.caller = caller
        self.callee = callee
        self.symbol = symbol
        self.version = version
        self.calls = 0
        self.returns = 0
        self.errors: int | None = None
        self.total_ns: int | None = None
        self.self_ns: int | None = None
        self.doubt_ns: int | None = None
        self.min_ns: int | None = None
        self.max_ns: int | None = None
        self.durations: dict[int, int] | None = None
        self.is_lower_bound = False

    def __repr__(self) -> str:
        times = "" if self.total_ns is None else f", {self.total_ns / 1e6:.3f} ms"
        calls = f"{self.calls:,} call{'s' * (self.calls != 1)}"
        errors = f", {self.errors:,} error{'s' * (self.errors != 1)}" if self.errors else ""
        images = f" ({self.caller or '?'} to {self.callee or '?'})" if self.caller else ""
        return f"<{self.symbol}: {calls}{times}{errors}{images}>"

    def add(self, other: SummaryRow) -> None:
        """Add the calls of another row."""
        self.calls += other.calls
        self.returns += other.returns
        self.is_lower_bound |= other.is_lower_bound
        if other.errors is not None:
            self.errors = (self.errors or 0) + other.errors
        if other.total_ns is not None and other.min_ns is not None and other.max_ns is not None:
            is_known = self.total_ns is None or self.self_ns is not None
            own = None if other.self_ns is None or not is_known else other.self_ns
            self.self_ns = None if own is None else (self.self_ns or 0) + own
            self.total_ns = (self.total_ns or 0) + other.total_ns
            least, most = self.min_ns, self.max_ns
            self.min_ns = other.min_ns if least is None else min(least, other.min_ns)
            self.max_ns = other.max_ns if most is None else max(most, other.max_ns)
        if other.doubt_ns is not None:
            self.doubt_ns = (self.doubt_ns or 0) + other.doubt_ns
        if other.durations is not None:
            mine = self.durations = dict(self.durations or {})
            for index, count in other.durations.items():
                mine[index] = mine.get(index, 0) + count

    def time_ns(self, *, inclusive: bool) -> int | None:
        """Return the time of the calls, without or `inclusive` of the calls inside."""
        return self.total_ns if inclusive else self.self_ns

    def is_told(self) -> bool:
        """Return whether the own time of the calls is larger than its possible error."""
        return is_told(self.self_ns, self.doubt_ns)

    @property
    def doubt_of_call_ns(self) -> float | None:
        """Return the possible error of the time of each call, None if it is not known."""
        return None if self.doubt_ns is None or not self.returns else self.doubt_ns / self.returns


def rows_of(programs: Iterable[TraceProgramOutcome]) -> list[SummaryRow]:
    """Return a row for each caller, callee, symbol and version that was called.

    Programs are added up. Rows with most time come first, or with most calls if nothing was
    timed.
    """
    merged: dict[tuple[str, str, str, str], SummaryRow] = {}
    for program in programs:
        slots = {slot.index: slot for slot in program.slots}
        for index, calls in (program.counts or {}).items():
            if index in slots and calls:
                _row(merged, slots[index]).calls += calls
        for index, stats in (program.stats or {}).items():
            if index in slots and stats[0]:
                slot = slots[index]
                row = _timed(slot, stats, program.ns_per_tick, program.doubt_ticks)
                row.durations = (program.durations or {}).get(index)
                _row(merged, slot).add(row)
    return in_order(merged.values())


def by_function(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Merge the rows of one symbol, of all callers and versions."""
    return _merged(rows, lambda row: ("", "", row.symbol))


def by_caller(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Merge the rows of one symbol and one calling image."""
    return _merged(rows, lambda row: (row.caller, "", row.symbol))


def by_image(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Merge the rows of all functions of one image, of all callers."""
    return _merged(rows, lambda row: ("", row.callee, ""))


def _merged(
    rows: Iterable[SummaryRow], names: Callable[[SummaryRow], tuple[str, str, str]]
) -> list[SummaryRow]:
    merged: dict[tuple[str, str, str], SummaryRow] = {}
    for row in rows:
        key = names(row)
        into = merged.get(key)
        if into is None:
            into = merged[key] = SummaryRow(*key, "")
        into.add(row)
    return in_order(merged.values())


def in_order(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Sort rows: most own time first, then most calls, then by name.

    Times that are not larger than their possible error come last, unless they matter.
    """
    rows = list(rows)
    whole = sum(r.self_ns or 0 for r in rows)
    return sorted(
        rows,
        key=lambda r: (
            importance(r.self_ns, r.doubt_ns, whole),
            -((r.total_ns if r.self_ns is None else r.self_ns) or 0),
            -r.calls,
            r.symbol,
            r.caller,
            r.callee,
            r.version,
        ),
    )


def _row(merged: dict[tuple[str, str, str, str], SummaryRow], slot: TracedSlot) -> SummaryRow:
    """Find or make the row of a slot."""
    caller = slot.caller.name if slot.caller else ""
    callee = slot.callee.name if slot.callee else ""
    key = (caller, callee, slot.symbol, slot.version)
    row = merged.get(key)
    if row is None:
        row = merged[key] = SummaryRow(*key)
    row.is_lower_bound |= slot.partial
    return row


def _timed(slot: TracedSlot, stats: Cell, ns_per_tick: float, doubt_ticks: float) -> SummaryRow:
    """Make the row of one cell of the agent's statistics.

    `doubt_ticks` is the possible error of each return's time.
    """
    calls, returns, errors, total, least, most, own = stats
    row = SummaryRow("", "", slot.symbol, "")
    row.calls, row.returns = calls, returns
    if returns:
        row.total_ns = round(total * ns_per_tick)
        row.self_ns = None if own is None else round(own * ns_per_tick)
        row.doubt_ns = round(returns * doubt_ticks * ns_per_tick) if doubt_ticks else None
        row.min_ns = round(least * ns_per_tick)
        row.max_ns = round(most * ns_per_tick)
        if slot.prototype is not None or slot.error_rule != ERROR_NONE:
            row.errors = errors
    return row
