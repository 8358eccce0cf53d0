# SPDX-License-Identifier: Apache-2.0
"""Which pages of a process are in memory: /proc/PID/pagemap."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from soscope.live.images.space import Space

    Array = npt.NDArray[np.int64]

_PRESENT, _SWAPPED = 63, 62  # bits of an entry (Documentation/admin-guide/mm/pagemap.rst)
_PIECE = 1 << 20  # entries
_AT_ONCE = 8 << 20  # bytes of memory


class Pages:
    """The resident pages of process `pid`, asked range by range.

    Raises OSError where the kernel does not tell.
    """

    __slots__ = ("_descriptor", "_size")

    def __init__(self, pid: int, page_size: int) -> None:
        self._descriptor = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._size = page_size

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def of(self, start: int, end: int) -> ResidentPages:
        """Return what is resident between two run-time addresses."""
        import numpy as np

        first, last = start // self._size, -(-end // self._size)
        parts = []
        for at in range(first, last, _PIECE):
            count = min(_PIECE, last - at)
            data = os.pread(self._descriptor, count * 8, at * 8)
            entries = np.frombuffer(data, dtype="<u8", count=len(data) // 8)
            parts.append((entries >> np.uint64(_SWAPPED)).astype(np.uint8))
            if len(entries) < count:  # behind the end of the address space
                parts.append(np.zeros(count - len(entries), dtype=np.uint8))
        states = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)
        return ResidentPages(first * self._size, self._size, states)


class ResidentPages:
    """Which of the pages from `start` on are resident: `present`, a row of 0 and 1.

    `states` has the upper two bits of each page's entry: 2 if it is present, 1 if swapped out.
    """

    __slots__ = ("_before", "_size", "_states", "present", "start")

    def __init__(self, start: int, page_size: int, states: npt.NDArray[np.uint8]) -> None:
        import numpy as np

        self.start = start
        self.present = states >> 1
        self._states = states
        self._size = page_size
        self._before = np.zeros(len(states) + 1, dtype=np.int64)
        np.cumsum(self.present, out=self._before[1:])

    def read(self, space: Space, start: int, end: int) -> bytearray:
        """Return the bytes of a range, 0 for pages that have never been touched.

        Those must not be read: the kernel would map a page of zeros into the process.
        """
        import numpy as np

        data = bytearray(end - start)
        first = (start - self.start) // self._size
        states = self._states[first : -(-(end - self.start) // self._size)] != 0
        edges = np.flatnonzero(np.diff(states, prepend=False, append=False)).tolist()
        base = self.start + first * self._size
        for low, high in zip(edges[::2], edges[1::2], strict=True):
            at = max(base + low * self._size, start)
            stop = min(base + high * self._size, end)
            while at < stop and (part := space.read(at, min(stop - at, _AT_ONCE))):
                data[at - start : at - start + len(part)] = part
                at += len(part)
        return data

    def count(self, starts: Array | int, ends: Array | int) -> int:
        """Return how many bytes of the ranges [start, end) lie in resident pages."""
        import numpy as np

        starts, ends = np.atleast_1d(starts), np.atleast_1d(ends)
        return int(self.count_each(starts, ends).sum()) if len(starts) else 0

    def count_each(self, starts: Array, ends: Array) -> Array:
        """Return how many bytes of each range lie in resident pages."""
        return self._below(ends) - self._below(starts)

    def _below(self, addrs: Array) -> Array:
        """Return how many resident bytes lie below each address."""
        import numpy as np

        offsets = np.clip(addrs - self.start, 0, len(self.present) * self._size)
        pages = offsets // self._size
        inside = offsets - pages * self._size
        here = self.present[np.minimum(pages, len(self.present) - 1)] if len(self.present) else 0
        below: Array = self._before[pages] * self._size + inside * here
        return below
