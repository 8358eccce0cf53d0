# SPDX-License-Identifier: Apache-2.0
"""How many bytes of certain blocks lie in each page, to divide RSS among kinds of memory."""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from soscope.live.heap.pages import ResidentPages

    Words = npt.NDArray[np.uint64]


_SHIFT = 12
_PAGE = 1 << _SHIFT
_MANY = 64  # pages: longer blocks are kept as ranges


class BlockPages:
    """Bytes of blocks by page; blocks may be added in any number of steps.

    `apart` are ranges [start, end) without blocks: the tables that tell where the blocks are.
    """

    __slots__ = ("_large", "_order", "_sizes", "apart")

    def __init__(self) -> None:
        self.apart: list[tuple[int, int]] = []
        self._large: list[tuple[int, int]] = []
        self._sizes: dict[int, int] = {}
        self._order: list[int] = []  # sorted pages, made on first use

    def add(self, starts: Words, sizes: Words) -> None:
        """Add blocks, given their addresses and sizes in bytes."""
        import numpy as np

        used = (sizes > 0) & (starts > 0)
        starts, ends = starts[used], starts[used] + sizes[used]
        shift = np.uint64(_SHIFT)
        first = starts >> shift
        counts = ((ends - np.uint64(1)) >> shift) - first + np.uint64(1)
        large = (counts > _MANY) | (ends < starts)
        pairs = zip(starts[large].tolist(), ends[large].tolist(), strict=True)
        self._large += [(start, end) for start, end in pairs if start < end]
        for count in range(1, _MANY + 1):
            chosen = ~large & (counts >= count)
            if not chosen.any():
                break
            pages = first[chosen] + np.uint64(count - 1)
            low = np.maximum(pages << shift, starts[chosen])
            high = np.minimum((pages + np.uint64(1)) << shift, ends[chosen])
            unique, which = np.unique(pages, return_inverse=True)
            sums = np.bincount(which.ravel(), high - low, len(unique)).astype(np.uint64)
            for page, size in zip(unique.tolist(), sums.tolist(), strict=True):
                self._put(page, size)

    def add_each(self, blocks: Iterable[tuple[int, int]]) -> None:
        """Add blocks (address, bytes) one by one."""
        for start, size in blocks:
            if start <= 0 or size <= 0:
                continue
            end = start + size
            first, last = start >> _SHIFT, (end - 1) >> _SHIFT
            if last - first >= _MANY:
                if end < 1 << 64:
                    self._large.append((start, end))
                continue
            for page in range(first, last + 1):
                low, high = page << _SHIFT, (page + 1) << _SHIFT
                self._put(page, min(high, end) - max(low, start))

    def within(self, start: int, end: int, resident: ResidentPages) -> int:
        """Return how many bytes of the blocks lie in resident pages of [start, end)."""
        sizes = self._sizes
        total = sum(
            min(sizes[page], _PAGE)
            for page in self._between(start, end)
            if resident.has(page << _SHIFT)
        )
        for large_start, large_end in self._large:
            if large_start < end and large_end > start:
                total += resident.count(max(start, large_start), min(end, large_end))
        return total

    def around(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the range of whole pages in [start, end) that have blocks, None if none has."""
        pages = self._between(start, end)
        parts = [part for part in self._large if part[0] < end and part[1] > start]
        if pages:
            parts.append((pages[0] << _SHIFT, (pages[-1] + 1) << _SHIFT))
        if not parts:
            return None
        first, last = min(part[0] for part in parts), max(part[1] for part in parts)
        return max(start, first & -_PAGE), min(end, last + -last % _PAGE)

    def plain(self) -> tuple[dict[int, int], list[tuple[int, int]]]:
        """Return all fields as a tuple that marshal can write."""
        return self._sizes, self._large

    @classmethod
    def of_plain(cls, sizes: dict[int, int], large: list[tuple[int, int]]) -> BlockPages:
        """Return the object that `plain` has turned into a tuple."""
        made = cls()
        made._sizes, made._large = sizes, large
        return made

    def _put(self, page: int, size: int) -> None:
        self._sizes[page] = self._sizes.get(page, 0) + size

    def _between(self, start: int, end: int) -> list[int]:
        """Return the pages with blocks, from the page of `start` to the page before `end`."""
        if len(self._order) != len(self._sizes):
            self._order = sorted(self._sizes)
        low, high = (
            bisect_left(self._order, page) for page in (start >> _SHIFT, -(-end >> _SHIFT))
        )
        return self._order[low:high]
