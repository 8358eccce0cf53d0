# SPDX-License-Identifier: Apache-2.0
"""Which pages of a process are in memory: /proc/PID/pagemap."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.live.images.space import Space

# Bits of an entry's last byte (Documentation/admin-guide/mm/pagemap.rst): 7 present, 6 swapped out.
_STATES = bytes(byte >> 6 for byte in range(256))
_PRESENT = bytes(state >> 1 & 1 for state in range(256))
_THERE = bytes(state != 0 for state in range(256))
_ENTRY = 8  # bytes
_PIECE = 1 << 20  # entries
_AT_ONCE = 8 << 20  # bytes of memory


class Pages:
    """The resident pages of process `pid`, read one range at a time.

    Raises OSError if the kernel does not tell.
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
        """Return which pages between two run-time addresses are resident."""
        first, last = start // self._size, -(-end // self._size)
        parts = []
        for at in range(first, last, _PIECE):
            count = min(_PIECE, last - at)
            data = os.pread(self._descriptor, count * _ENTRY, at * _ENTRY)
            states = data[_ENTRY - 1 :: _ENTRY].translate(_STATES)
            parts.append(states.ljust(count, b"\0"))  # behind the end of the address space
        return ResidentPages(first * self._size, self._size, b"".join(parts))


class ResidentPages:
    """Which of the pages from `start` on are resident: `present` has a byte of 0 or 1 for each.

    `states` has the upper two bits of each page's entry: 2 if it is present, 1 if it is swapped
    out.
    """

    __slots__ = ("_size", "_states", "present", "start")

    def __init__(self, start: int, page_size: int, states: bytes) -> None:
        self.start = start
        self.present = states.translate(_PRESENT)
        self._states = states
        self._size = page_size

    def read(self, space: Space, start: int, end: int) -> bytearray:
        """Return the bytes of a range, 0 for pages that were never touched.

        Such pages must not be read, because the kernel would then map pages of zeros into the
        process.
        """
        data = bytearray(end - start)
        first = (start - self.start) // self._size
        there = self._states[first : -(-(end - self.start) // self._size)].translate(_THERE)
        base = self.start + first * self._size
        high = 0
        while (low := there.find(1, high)) >= 0:
            high = there.find(0, low)
            high = len(there) if high < 0 else high
            at = max(base + low * self._size, start)
            stop = min(base + high * self._size, end)
            while at < stop and (part := space.read(at, min(stop - at, _AT_ONCE))):
                data[at - start : at - start + len(part)] = part
                at += len(part)
        return data

    def count(self, start: int, end: int) -> int:
        """Return how many bytes of the range [start, end) lie in resident pages."""
        size, present = self._size, self.present
        low = max(start - self.start, 0)
        high = min(end - self.start, len(present) * size)
        if low >= high:
            return 0
        first, last = low // size, (high - 1) // size
        total = present.count(1, first, last + 1) * size
        if present[first]:
            total -= low - first * size
        if present[last]:
            total -= (last + 1) * size - high
        return total

    def has(self, addr: int) -> bool:
        """Return whether the page of an address is resident."""
        at = (addr - self.start) // self._size
        return 0 <= at < len(self.present) and self.present[at] == 1

    def count_all(self, ranges: Iterable[tuple[int, int]]) -> int:
        """Return how many bytes of the ranges (address, size) lie in resident pages."""
        count = self.count
        return sum(count(start, start + size) for start, size in ranges)
