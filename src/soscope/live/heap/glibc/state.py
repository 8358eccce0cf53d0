# SPDX-License-Identifier: Apache-2.0
"""How `struct malloc_state` lies in the releases of glibc (malloc/malloc.c)."""

from __future__ import annotations

from struct import Struct

BINS = 127  # pairs of pointers; there is no bin 0
_BINMAP = 16  # bytes


class StateLayout:
    """Where the parts of an arena are, in bytes from its beginning; `size` is that of all.

    `fast` is how many fast bins it has.
    """

    __slots__ = ("bins_at", "fast", "next_at", "size", "top_at")

    # next, next_free, attached_threads, system_mem, max_system_mem
    TAIL = Struct("<QQQQQ")

    def __init__(self, fast: int, fast_at: int) -> None:
        self.fast = fast
        self.top_at = fast_at + fast * 8
        self.bins_at = self.top_at + 16  # last_remainder lies between
        self.next_at = self.bins_at + BINS * 16 + _BINMAP
        self.size = self.next_at + self.TAIL.size

    def fast_bins(self, data: bytes) -> tuple[int, ...]:
        """Return the heads of the fast bins."""
        return Struct(f"<{self.fast}Q").unpack_from(data, self.top_at - self.fast * 8)


# from 2.27 to 2.42: mutex, flags, have_fastchunks, ten fast bins; 2.43 has neither of the last two
LAYOUTS = StateLayout(10, 16), StateLayout(0, 8)
