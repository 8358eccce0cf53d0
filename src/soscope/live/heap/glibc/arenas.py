# SPDX-License-Identifier: Apache-2.0
"""Find glibc's arenas without symbols: `main_arena` is known by its bins.

`struct malloc_state` has been laid out alike from glibc 2.27 to 2.42 (malloc/malloc.c). An empty
bin points to itself, so an initialised arena holds a hundred words that are their own addresses;
nothing else does. What is taken for one is proved: each of its 127 bins is empty or leads to
memory that the process may write, and the ring of `next` ends where it began. Whether a chunk
leads back to its bin proves nothing: it may be another's a microsecond later.
"""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.live.heap.ownwords import own_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.pages import Pages
    from soscope.live.images.loadedimage import LoadedImage
    from soscope.live.images.space import Space

_BINS = 127  # pairs of pointers; there is no bin 0
_LEAST_EMPTY = 4  # bins: of sizes that no program has all of
_BINS_AT = 112
_EMPTY = 16  # bytes from where an empty bin points to, to its pair of pointers
_NEXT_AT = 2160
STATE_SIZE = 2200  # bytes of struct malloc_state
_HEAD = Struct("<iii4x10QQQ")  # mutex, flags, have_fastchunks, fastbins, top, last_remainder
_TAIL = Struct("<QQQQQ")  # next, next_free, attached_threads, system_mem, max_system_mem
_NONCONTIGUOUS = 2  # of flags
_TRIES = 8
_MOST_ARENAS = 1 << 14
_MOST_SEARCHED = 256 << 20  # bytes of a static program's variables


class Arena:
    """One `struct malloc_state`, as it was when it was read; addresses are run-time ones.

    `system` is how many bytes it has of the kernel, `threads` how many are attached to it. The
    main arena grows by brk(2) while `is_contiguous`.
    """

    __slots__ = (
        "addr",
        "fast",
        "following",
        "is_contiguous",
        "is_main",
        "system",
        "threads",
        "top",
    )

    def __init__(self, addr: int, data: bytes, *, is_main: bool) -> None:
        head = _HEAD.unpack_from(data)
        self.addr = addr
        self.is_main = is_main
        self.is_contiguous = not head[1] & _NONCONTIGUOUS
        self.fast: tuple[int, ...] = head[3:13]
        self.top: int = head[13]
        self.following, _, self.threads, self.system, _ = _TAIL.unpack_from(data, _NEXT_AT)

    @property
    def is_used(self) -> bool:
        """Say whether it has memory: a program that has never called malloc has an empty one."""
        return bool(self.system) and self.top != self.addr + _BINS_AT - _EMPTY


def find_arenas(space: Space, image: LoadedImage, pages: Pages) -> list[Arena]:
    """Return the arenas of the C library in `image`, the main one first; none if it has none."""
    for start, end in writable_ranges(image):
        data = pages.of(start, end).read(space, start, end)
        candidates = _candidates(data, start)
        for _ in range(_TRIES if candidates else 0):
            space.forget()  # chunks may lie in memory that was mapped just now
            for addr in candidates:
                arenas = read_arenas(space, addr)
                if arenas:
                    return arenas
    return []


def read_arena(space: Space, arena: Arena) -> Arena:
    """Return an arena as it is now."""
    data = space.read(arena.addr, STATE_SIZE)
    return Arena(arena.addr, data, is_main=arena.is_main) if len(data) == STATE_SIZE else arena


def read_arenas(space: Space, main: int) -> list[Arena]:
    """Return the arenas of the ring that begins at `main`; none where it is no such ring."""
    arenas: list[Arena] = []
    addr = main
    seen: set[int] = set()
    while addr not in seen and len(arenas) < _MOST_ARENAS:
        data = space.read(addr, STATE_SIZE)
        if len(data) < STATE_SIZE or not _has_bins(space, addr, data):
            return []
        seen.add(addr)
        arenas.append(Arena(addr, data, is_main=addr == main))
        addr = arenas[-1].following
    return arenas if addr == main else []


def writable_ranges(image: LoadedImage) -> list[tuple[int, int]]:
    """Return where the variables of an image are, as run-time addresses."""
    ranges = []
    for segment in image.segments:
        if segment.type == c.PT_LOAD and segment.flags & c.PF_W:
            start = segment.vaddr + image.load_bias
            ranges.append((start & -8, start + min(segment.memsz, _MOST_SEARCHED) & -8))
    return ranges


def _candidates(data: bytearray, start: int) -> list[int]:
    """Return where arenas may lie in `data`: wherever many of the bins are empty."""
    if len(data) < STATE_SIZE:
        return []
    pairs = [
        at + start
        for at in own_words(data, start, _EMPTY)
        if data[at : at + 8] == data[at + 8 : at + 16]
    ]
    known = set(pairs)
    candidates: list[int] = []
    tried: set[int] = set()
    for pair in pairs:
        for index in range(_BINS):
            addr = pair - _BINS_AT - index * 16
            if addr in tried:
                continue
            tried.add(addr)
            bins = range(addr + _BINS_AT, addr + _NEXT_AT - 16, 16)
            if len(known.intersection(bins)) >= _LEAST_EMPTY:
                candidates.append(addr)
        if len(candidates) > 4 * _BINS:
            break
    return candidates


def _has_bins(space: Space, addr: int, data: bytes) -> bool:
    """Say whether all bins are empty or lead to chunks."""
    words = memoryview(data[_BINS_AT : _BINS_AT + _BINS * 16]).cast("Q")
    for at, word in enumerate(words):
        own = addr + _BINS_AT + at // 2 * 16 - _EMPTY
        if word == own:
            continue
        mapping = None if word & 15 else space.mapping_at(word)
        if mapping is None or mapping.flags[:2] != "rw":
            return False
    return True
