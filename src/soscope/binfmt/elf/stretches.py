# SPDX-License-Identifier: Apache-2.0
"""Stretches of numbers: which of them have been there before, and whose an address is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush


class Stretches:
    """A set of numbers, as stretches with a start and an end behind them."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> list[tuple[int, int]]:
        """Add a stretch; return those parts of it that were not in the set."""
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
    """Whose an address is: of several stretches that hold it, the first one's."""

    __slots__ = ("_owners", "_starts")

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Take (start, end) of each."""
        rows = sorted((start, index, end) for index, (start, end) in enumerate(stretches))
        self._starts: list[int] = []
        self._owners: list[int] = []
        open_: list[tuple[int, int]] = []  # (index, end) of those that have begun, as a heap
        place = 0
        for start, index, end in [*rows, (rows[-1][0] + 1, -1, 0)] if rows else []:
            self._close(open_, place, start if index >= 0 else None)
            place = start
            if index >= 0:
                heappush(open_, (index, end))

    def _close(self, open_: list[tuple[int, int]], place: int, limit: int | None) -> None:
        """Write down who has what lies between `place` and `limit`."""
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
        """Return the index of the first stretch that holds `address`, -1 where none does."""
        index = bisect_right(self._starts, address) - 1
        return self._owners[index] if index >= 0 else -1
