# SPDX-License-Identifier: Apache-2.0
"""What is added up of the calls through one slot."""

from __future__ import annotations

# (calls, returns, errors, total, min, max, self). Of the returns: `total` is all their time,
# `self` what of it no nested call of the same thread took that was seen, too; None: not known.
# In ticks or nanoseconds, as whoever hands them over says.
Cell = tuple[int, int, int, int, int, int, int | None]
Stats = dict[int, Cell]  # by slot


def is_told(time_ns: float | None, doubt_ns: float | None) -> bool:
    """Return whether a time is larger than what it may be wrong by, or nobody knows one of them."""
    return time_ns is None or doubt_ns is None or not doubt_ns or time_ns > doubt_ns


def importance(time_ns: float | None, doubt_ns: float | None, whole_ns: float | None) -> int:
    """Return a key that ranks times: those that are told first, then those that are not.

    Below a hundredth of the whole it does not matter, and they are equal.
    """
    if (time_ns or 0) * 100 < (whole_ns or 0):
        return 2
    return 0 if is_told(time_ns, doubt_ns) else 1


def add(cell: Cell | None, other: Cell) -> Cell:
    """Add two cells; who has no returns has no shortest call either."""
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
