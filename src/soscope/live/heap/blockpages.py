# SPDX-License-Identifier: Apache-2.0
"""How many bytes of certain blocks lie in each page: as much as is needed to share out RSS."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from soscope.live.heap.pages import ResidentPages

    Words = npt.NDArray[np.uint64]

_SHIFT = 12
_PAGE = 1 << _SHIFT
_MANY = 64  # pages: blocks of more are kept as they are


class BlockPages:
    """Bytes of blocks by page; blocks may be added in any number of goes."""

    __slots__ = ("_large", "_pages", "_parts", "_sizes")

    def __init__(self) -> None:
        import numpy as np

        self._parts: list[tuple[Words, Words]] = []
        self._large: list[tuple[int, int]] = []
        self._pages: Words = np.empty(0, np.uint64)
        self._sizes: Words = np.empty(0, np.uint64)

    def add(self, starts: Words, sizes: Words) -> None:
        """Add blocks by their addresses and bytes."""
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
            self._parts.append(_summed(pages, high - low))

    def within(self, start: int, end: int, resident: ResidentPages) -> int:
        """Return how many bytes of them lie in resident pages of [start, end)."""
        import numpy as np

        self._settle()
        low, high = np.searchsorted(self._pages, [start >> _SHIFT, -(-end >> _SHIFT)]).tolist()
        pages = self._pages[low:high].astype(np.int64) << _SHIFT
        is_there = resident.count_each(pages, pages + 1) > 0
        total = int(np.minimum(self._sizes[low:high], _PAGE)[is_there].sum())
        for large_start, large_end in self._large:
            if large_start < end and large_end > start:
                total += resident.count(max(start, large_start), min(end, large_end))
        return total

    def around(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the part of [start, end) that they lie in, in whole pages; None: none does."""
        import numpy as np

        self._settle()
        low, high = np.searchsorted(self._pages, [start >> _SHIFT, -(-end >> _SHIFT)]).tolist()
        parts = [part for part in self._large if part[0] < end and part[1] > start]
        if low < high:
            first, last = int(self._pages[low]), int(self._pages[high - 1])
            parts.append((first << _SHIFT, (last + 1) << _SHIFT))
        if not parts:
            return None
        first, last = min(part[0] for part in parts), max(part[1] for part in parts)
        return max(start, first & -_PAGE), min(end, last + -last % _PAGE)

    def plain(self) -> tuple[bytes, bytes, list[tuple[int, int]]]:
        """Return all of it as what marshal takes."""
        self._settle()
        return self._pages.tobytes(), self._sizes.tobytes(), self._large

    @classmethod
    def of_plain(cls, pages: bytes, sizes: bytes, large: list[tuple[int, int]]) -> BlockPages:
        """Return what `plain` has returned elsewhere."""
        import numpy as np

        made = cls()
        made._pages, made._sizes = np.frombuffer(pages, np.uint64), np.frombuffer(sizes, np.uint64)
        made._large = large
        return made

    def _settle(self) -> None:
        """Make one part of all."""
        import numpy as np

        if self._parts:
            parts = [(self._pages, self._sizes), *self._parts]
            self._parts = []
            pages, sizes = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            self._pages, self._sizes = _summed(pages, sizes)


def _summed(pages: Words, sizes: Words) -> tuple[Words, Words]:
    """Return each page once, with the sum of its bytes."""
    import numpy as np

    unique, which = np.unique(pages, return_inverse=True)
    sums = np.bincount(which.ravel(), sizes, len(unique))
    return unique, sums.astype(np.uint64)
