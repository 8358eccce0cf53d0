# SPDX-License-Identifier: Apache-2.0
"""The layouts of `struct malloc_state` in the releases of glibc (malloc/malloc.c)."""

from __future__ import annotations

from struct import Struct

BINS = 127  # pairs of pointers; bin 0 does not exist
_BINMAP = 16  # bytes


class StateLayout:
    """Offsets of the parts of an arena, in bytes from its start; `size` is its whole size.

    `fast` is its number of fast bins.
    """

    __slots__ = ("bins_at", "fast", "next_at", "size", "top_at")

    # next, next_free, attached_threads, system_mem, max_system_mem
    TAIL = Struct("<QQQQQ")

    def __init__(self, fast: int, fast_at: int) -> None:
        self.fast = fast
        self.top_at = fast_at + fast * 8
        self.bins_at = self.top_at + 16  # last_remainder lies in between
        self.next_at = self.bins_at + BINS * 16 + _BINMAP
        self.size = self.next_at + self.TAIL.size

    def fast_bins(self, data: bytes) -> tuple[int, ...]:
        """Return the heads of the fast bins."""
        return Struct(f"<{self.fast}Q").unpack_from(data, self.top_at - self.fast * 8)


# 2.27 to 2.42: mutex, flags, have_fastchunks, ten fast bins; 2.43 has neither have_fastchunks nor
# fast bins
LAYOUTS = StateLayout(10, 16), StateLayout(0, 8)
