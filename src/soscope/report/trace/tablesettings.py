# SPDX-License-Identifier: Apache-2.0
"""Settings of the table of `-c`: rows, order and columns, which trace and report share."""

from __future__ import annotations

BY_SYMBOL, BY_IMAGE, BY_CALLER = "symbol", "image", "caller"
GROUPS = (BY_SYMBOL, BY_IMAGE, BY_CALLER)

TIME, SECONDS, USECS, CALLS, ERRORS = "time", "seconds", "usecs", "calls", "errors"
TOTAL, MIN, MAX, CALLER, CALLEE, NAME = "total", "min", "max", "caller", "callee", "name"
P50, P90, P99 = "p50", "p90", "p99"
RATIO = "ratio"
PERCENTILES = {P50: 50, P90: 90, P99: 99}
TIMES = (TIME, SECONDS, USECS)  # own times, or inclusive times
WHOLE_TIMES = (TIME, SECONDS, TOTAL)  # times of all calls together
COLUMNS = (TIME, SECONDS, USECS, CALLS, RATIO, ERRORS, TOTAL, MIN, P50, P90, P99, MAX, CALLER,
           CALLEE, NAME)  # fmt: skip

# Names in strace, and the titles of the columns.
ALIASES = {
    "% time": TIME,
    "time-percent": TIME,
    "self": SECONDS,
    "total-time": SECONDS,
    "total_time": SECONDS,
    "usecs/call": USECS,
    "avg-time": USECS,
    "avg_time": USECS,
    "count": CALLS,
    "error": ERRORS,
    "min-time": MIN,
    "min_time": MIN,
    "shortest": MIN,
    "max-time": MAX,
    "max_time": MAX,
    "longest": MAX,
    "image": CALLEE,
    "function": NAME,
    "symbol": NAME,
    "syscall": NAME,
}


class TableSettings:
    """How to show a table.

    `sort` is a column, "" for the usual order. `by` is one of GROUPS; "" stands for a row for
    each function, or for each pair of images if all callers were asked for. `columns` are the
    columns to show, in order; () stands for the usual ones. `top` is a number of rows, with one
    more for the rest, or None for all rows. With `inclusive`, times contain those of nested
    calls. With `histogram`, the table has distributions of durations. With `tree`, a row is a
    call path, not a function. With `graph`, a row is a pair of images. `is_drawn_alone` means
    that only a picture of the graph is made, no text.
    """

    __slots__ = (
        "by",
        "columns",
        "graph",
        "histogram",
        "inclusive",
        "is_drawn_alone",
        "sort",
        "top",
        "tree",
    )

    def __init__(
        self,
        *,
        sort: str = "",
        by: str = "",
        columns: tuple[str, ...] = (),
        top: int | None = None,
        inclusive: bool = False,
        histogram: bool = False,
        tree: bool = False,
        graph: bool = False,
        is_drawn_alone: bool = False,
    ) -> None:
        self.is_drawn_alone = is_drawn_alone
        self.graph = graph
        self.tree = tree
        self.sort = sort
        self.by = by
        self.columns = columns
        self.top = top
        self.inclusive = inclusive
        self.histogram = histogram

    @property
    def needs_calls(self) -> bool:
        """Return whether the table needs single calls, not only sums."""
        return self.tree or self.needs_durations

    @property
    def needs_durations(self) -> bool:
        """Return whether the table needs the duration of each call."""
        return self.histogram or any(name in PERCENTILES for name in (*self.columns, self.sort))
