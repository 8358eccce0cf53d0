# SPDX-License-Identifier: Apache-2.0
"""Find glibc's arenas without symbols: `main_arena` is recognised by its bins.

An empty bin points to itself, so an initialised arena holds a hundred words that are their own
addresses; nothing else in memory does. Each candidate is verified: each of its 127 bins must be
empty or lead to writable memory, and the ring of `next` must end where it began. Whether a chunk
leads back to its bin proves nothing, because the process may move it to another bin a microsecond
later. The same ring tells which layout of `state.py` the arena has.
"""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.live.heap.glibc.state import BINS, LAYOUTS
from soscope.live.heap.ownwords import own_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.glibc.state import StateLayout
    from soscope.live.heap.pages import Pages
    from soscope.live.images.loadedimage import LoadedImage
    from soscope.live.images.space import Space

_LEAST_EMPTY = 4  # empty bins at least; no program uses all the sizes
_EMPTY = 16  # bytes from the target of an empty bin to the bin's pair of pointers
_FLAGS = Struct("<4xi")  # behind the mutex
_WORD = Struct("<Q")
_NONCONTIGUOUS = 2  # a bit of flags
_TRIES = 8
_MOST_ARENAS = 1 << 14
_MOST_SEARCHED = 256 << 20  # bytes of an image's variables, at most


class Arena:
    """One `struct malloc_state` at the time of reading; addresses are run-time addresses.

    `system` is how many bytes it has from the kernel, `threads` how many threads use it. The main
    arena grows by brk(2) if `is_contiguous` is true.
    """

    __slots__ = (
        "addr",
        "fast",
        "following",
        "is_contiguous",
        "is_main",
        "layout",
        "system",
        "threads",
        "top",
    )

    def __init__(self, addr: int, data: bytes, layout: StateLayout, *, is_main: bool) -> None:
        self.addr = addr
        self.layout = layout
        self.is_main = is_main
        self.is_contiguous = not _FLAGS.unpack_from(data)[0] & _NONCONTIGUOUS
        self.fast = layout.fast_bins(data)
        self.top: int = _WORD.unpack_from(data, layout.top_at)[0]
        tail = layout.TAIL.unpack_from(data, layout.next_at)
        self.following, _, self.threads, self.system, _ = tail

    @property
    def is_used(self) -> bool:
        """Return whether it has memory; before the first call of malloc, an arena is empty."""
        return bool(self.system) and self.top != self.addr + self.layout.bins_at - _EMPTY


def find_arenas(space: Space, image: LoadedImage, pages: Pages) -> list[Arena]:
    """Return the arenas of the C library in `image`, the main one first; [] if there are none."""
    for start, end in writable_ranges(image):
        data = pages.of(start, end).read(space, start, end)
        firsts = _first_bins(data, start)
        for _ in range(_TRIES if firsts else 0):
            space.forget()  # chunks may lie in newly mapped memory
            for first in firsts:
                for layout in LAYOUTS:
                    arenas = read_arenas(space, first - layout.bins_at, layout)
                    if arenas:
                        return arenas
    return []


def read_arena(space: Space, arena: Arena) -> Arena:
    """Return an arena with its current contents."""
    layout = arena.layout
    data = space.read(arena.addr, layout.size)
    if len(data) < layout.size:
        return arena
    return Arena(arena.addr, data, layout, is_main=arena.is_main)


def read_arenas(space: Space, main: int, layout: StateLayout) -> list[Arena]:
    """Return the arenas in the ring that begins at `main`, none if it is not such a ring."""
    arenas: list[Arena] = []
    addr = main
    seen: set[int] = set()
    while addr not in seen and len(arenas) < _MOST_ARENAS:
        data = space.read(addr, layout.size)
        if len(data) < layout.size:
            return []
        arena = Arena(addr, data, layout, is_main=addr == main)
        if 0 < abs(arena.following - addr) < layout.size:  # two arenas cannot overlap
            return []
        if not _has_bins(space, addr + layout.bins_at, data, layout):
            return []
        seen.add(addr)
        arenas.append(arena)
        addr = arena.following
    return arenas if addr == main else []


def writable_ranges(image: LoadedImage) -> list[tuple[int, int]]:
    """Return the run-time address ranges of an image's variables."""
    ranges = []
    for segment in image.segments:
        if segment.type == c.PT_LOAD and segment.flags & c.PF_W:
            start = segment.vaddr + image.load_bias
            ranges.append((start & -8, start + min(segment.memsz, _MOST_SEARCHED) & -8))
    return ranges


def _first_bins(data: bytearray, start: int) -> list[int]:
    """Return possible start addresses of an arena's bins: places with many empty bins."""
    if len(data) < BINS * 16:
        return []
    pairs = [
        at + start
        for at in own_words(data, start, _EMPTY)
        if data[at : at + 8] == data[at + 8 : at + 16]
    ]
    known = bytearray(len(data) >> 3)  # one byte for each word; a bin has two words
    for pair in pairs:
        known[pair - start >> 3] = 1
    even, odd = known[::2], known[1::2]
    firsts: list[int] = []
    tried: set[int] = set()
    for pair in pairs:
        count = (odd if pair - start & 8 else even).count
        for first in range(pair, max(pair - BINS * 16, start - 1), -16):
            if first in tried:
                break  # all lower ones are known, too
            tried.add(first)
            at = first - start >> 4
            if count(1, at, at + BINS) >= _LEAST_EMPTY:
                firsts.append(first)
        if len(firsts) > 4 * BINS:
            break
    return firsts


def _has_bins(space: Space, first: int, data: bytes, layout: StateLayout) -> bool:
    """Return whether all bins, from the one at `first` on, are empty or lead to chunks."""
    words = memoryview(data[layout.bins_at : layout.bins_at + BINS * 16]).cast("Q")
    for at, word in enumerate(words):
        if word == first + at // 2 * 16 - _EMPTY:
            continue
        mapping = None if word & 15 else space.mapping_at(word)
        if mapping is None or mapping.flags[:2] != "rw":
            return False
    return True
