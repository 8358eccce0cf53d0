# SPDX-License-Identifier: Apache-2.0
"""Sums over the calls through one slot."""

from __future__ import annotations

# (calls, returns, errors, total, min, max, self). `total` is the time of all calls that returned.
# `self` is the part of it that was not spent in nested calls of the same thread that are seen,
# too; it is None if that is not known. Times are in ticks or nanoseconds: each producer documents
# which.
Cell = tuple[int, int, int, int, int, int, int | None]
Stats = dict[int, Cell]  # slot -> its sums


def is_told(time_ns: float | None, doubt_ns: float | None) -> bool:
    """Return whether a time exceeds its possible error; true if either is unknown."""
    return time_ns is None or doubt_ns is None or not doubt_ns or time_ns > doubt_ns


def importance(time_ns: float | None, doubt_ns: float | None, whole_ns: float | None) -> int:
    """Return a sort key for times: 0 for those that exceed their error, 1 for those that do not.

    A time below a hundredth of the whole gets 2, whatever its error is.
    """
    if (time_ns or 0) * 100 < (whole_ns or 0):
        return 2
    return 0 if is_told(time_ns, doubt_ns) else 1


def add(cell: Cell | None, other: Cell) -> Cell:
    """Add two cells; a cell without returns has no shortest call."""
    if cell is None or not any(cell):
        return other
    calls, returns, errors, total, least, most, own = cell
    if returns and other[1]:
        least = min(least, other[4])
    elif other[1]:
        least = other[4]
    return (
        calls + other[0],
        returns + other[1],
        errors + other[2],
        total + other[3],
        least,
        max(most, other[5]),
        None if own is None or other[6] is None else own + other[6],
    )
