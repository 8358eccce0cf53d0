# SPDX-License-Identifier: Apache-2.0
"""Sorted ranges of addresses that do not overlap, for many look-ups."""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class TakenRanges:
    """Ranges [start, end) of addresses whose use is known already."""

    __slots__ = ("ends", "starts")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        rows = sorted(ranges)
        self.starts = [start for start, _ in rows]
        self.ends = [end for _, end in rows]

    def meets(self, start: int, end: int) -> bool:
        """Return whether any range has an address of [start, end)."""
        at = bisect_right(self.starts, start) - 1
        if at >= 0 and self.ends[at] > start:
            return True
        return at + 1 < len(self.starts) and self.starts[at + 1] < end

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that are in none of the ranges."""
        at = max(0, bisect_right(self.starts, start) - 1)
        gaps = []
        while at < len(self.starts) and self.starts[at] < end:
            if start < self.starts[at]:
                gaps.append((start, self.starts[at]))
            start = max(start, self.ends[at])
            at += 1
        return [*gaps, (start, end)] if start < end else gaps
