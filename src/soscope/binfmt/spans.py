# SPDX-License-Identifier: Apache-2.0
"""Find the range that contains an address, among many ranges that may overlap."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush


class Spans:
    """Ranges of addresses (start, end); if several contain an address, the first counts."""

    __slots__ = ("_edges", "_holders")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        rising = sorted((start, number, end) for number, (start, end) in enumerate(ranges))
        rising = [span for span in rising if span[0] < span[2]]
        edges = sorted({edge for start, _, end in rising for edge in (start, end)})
        self._edges: list[int] = []
        self._holders: list[int] = []  # index of the range from each edge on, -1 for none
        waiting: list[tuple[int, int]] = []
        at = 0
        for edge in edges:
            while at < len(rising) and rising[at][0] <= edge:
                heappush(waiting, (rising[at][1], rising[at][2]))
                at += 1
            while waiting and waiting[0][1] <= edge:
                heappop(waiting)
            holder = waiting[0][0] if waiting else -1
            if not self._holders or self._holders[-1] != holder:
                self._edges.append(edge)
                self._holders.append(holder)

    def at(self, vaddr: int) -> int | None:
        """Return the index of the range that contains an address, None if there is none."""
        index = bisect_right(self._edges, vaddr) - 1
        return None if index < 0 or self._holders[index] < 0 else self._holders[index]
