# SPDX-License-Identifier: Apache-2.0
"""Sets of ranges of numbers, and the first of many ranges that contains an address."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Stretches:
    """A set of numbers, stored as ranges [start, end)."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add a range; return the parts of it that were not in the set."""
        starts, ends = self._starts, self._ends
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        fresh, at = [], start
        for index in range(low, high):
            if at < starts[index]:
                fresh.append((at, starts[index]))
            at = max(at, ends[index])
        if at < end:
            fresh.append((at, end))
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high], ends[low:high] = [start], [end]
        return fresh


class StretchOwners:
    """Finds the range that contains an address; if several do, the first of them."""

    __slots__ = ("_owners", "_starts")

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Take the ranges (start, end)."""
        rows = sorted((start, index, end) for index, (start, end) in enumerate(stretches))
        self._starts: list[int] = []
        self._owners: list[int] = []
        open_: list[tuple[int, int]] = []  # heap of (index, end) of the ranges that are open
        place = 0
        for start, index, end in [*rows, (rows[-1][0] + 1, -1, 0)] if rows else []:
            self._close(open_, place, start if index >= 0 else None)
            place = start
            if index >= 0:
                heappush(open_, (index, end))

    def _close(self, open_: list[tuple[int, int]], place: int, limit: int | None) -> None:
        """Record the owner of the addresses between `place` and `limit`."""
        while open_ and (limit is None or place < limit):
            index, end = open_[0]
            if end <= place:
                heappop(open_)
                continue
            self._starts.append(place)
            self._owners.append(index)
            place = end if limit is None else min(end, limit)
        if limit is None or place < limit:
            self._starts.append(place)
            self._owners.append(-1)

    def of(self, address: int) -> int:
        """Return the index of the first range that contains `address`, -1 if none does."""
        index = bisect_right(self._starts, address) - 1
        return self._owners[index] if index >= 0 else -1
