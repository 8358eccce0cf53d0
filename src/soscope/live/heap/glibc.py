# SPDX-License-Identifier: Apache-2.0
"""Find the heap of glibc's malloc in a process without symbols, and read it."""

from __future__ import annotations

from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.live.heap.chunks import MIN_SIZE, HeapWords, cached_chunks, fast_chunks, size_of
from soscope.live.heap.memory import TakenRanges, own_words
from soscope.model.record import Record, fresh
from soscope.proc.memory import available

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.live.heap.memory import Pages, ResidentPages
    from soscope.live.images.image import LoadedImage
    from soscope.live.images.space import Space


# The layouts of `struct malloc_state` in the releases of glibc (malloc/malloc.c).

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


# Find glibc's arenas without symbols: `main_arena` is recognised by its bins.
#
# An empty bin points to itself, so an initialised arena holds a hundred words that are their own
# addresses; nothing else in memory does. Each candidate is verified: each of its 127 bins must be
# empty or lead to writable memory, and the ring of `next` must end where it began. Whether a chunk
# leads back to its bin proves nothing, because the process may move it to another bin a microsecond
# later. The same ring tells which layout of `glibc.py` the arena has.

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


# Find glibc's `mp_`, malloc's parameters: start of its heap, mapped bytes, settings.
#
# It has no symbol. `struct malloc_par` (malloc/malloc.c) begins with three sizes and the number of
# arenas from which on malloc counts processors. Its counts of mapped chunks and its `sbrk_base`
# follow, at offsets that depend on the release.

_SIZES = Struct("<QQQQQ")  # trim_threshold, top_pad, mmap_threshold, arena_test, arena_max
_COUNTS = Struct("<iiii")  # n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold
_MAPPED = Struct("<QQQ")  # mmapped_mem, max_mmapped_mem, sbrk_base
# offsets of the counts and of mmapped_mem: before 2.35, and from 2.35 on (behind the sizes of huge
# pages)
_LAYOUTS = ((40, 56), (60, 80), (64, 80), (64, 88))
_LENGTH = 112
_PAGE = 4096
_MOST = 1 << 46  # bytes
_MOST_ARENA_TEST = 1 << 16
_MOST_PAD = 1 << 40
_MOST_MMAPS = 1 << 31
_AT_ONCE = 512  # words
_NOTHING = memoryview(bytes(_AT_ONCE * 8)).cast("Q")


class Params:
    """The settings of malloc, and what it has mapped: `mmaps` chunks of `mmapped` bytes in all.

    `sbrk_base` is the start of its heap, 0 if it never called brk(2).
    """

    __slots__ = ("addr", "mmap_threshold", "mmapped", "mmaps", "sbrk_base", "top_pad", "trim")

    def __init__(
        self, addr: int, sizes: tuple[int, ...], mmaps: int, mapped: tuple[int, ...]
    ) -> None:
        self.addr = addr
        self.trim, self.top_pad, self.mmap_threshold = sizes[:3]
        self.mmaps = mmaps
        self.mmapped, _, self.sbrk_base = mapped


def find_params(space: Space, image: LoadedImage, pages: Pages) -> Params | None:
    """Return the `mp_` of the C library in `image`, None if it is not found with certainty."""
    heap = next((each.start for each in space.mappings if each.path == "[heap]"), 0)
    best: tuple[int, Params] | None = None
    for start, end in writable_ranges(image):
        data = pages.of(start, end).read(space, start, end)
        for at in _likely(data):
            for counts_at, mapped_at in _LAYOUTS:
                params, score = _read(data, at, counts_at, mapped_at, start, heap)
                if params is not None and (best is None or score > best[0]):
                    best = score, params
    return None if best is None else best[1]


def _likely(data: bytearray) -> list[int]:
    """Return the offsets at which `mp_` may begin, by its first five words."""
    words = memoryview(data)[: len(data) & -8].cast("Q")
    offsets: list[int] = []
    last = len(words) - _LENGTH // 8
    for start in range(0, last + 1, _AT_ONCE):
        trims = words[start : min(start + _AT_ONCE, last + 1)]
        if trims == _NOTHING[: len(trims)]:
            continue
        offsets += [
            at * 8
            for at, trim in enumerate(trims, start)
            if trim >= _PAGE
            and words[at + 1] < _MOST_PAD
            and 0 < words[at + 3] <= _MOST_ARENA_TEST
            and 0 < words[at + 2] < _MOST
        ]
    return offsets


def _read(
    data: bytearray, at: int, counts_at: int, mapped_at: int, start: int, heap: int
) -> tuple[Params | None, int]:
    """Return the parameters at `at` if they can be `mp_`, and a score for how likely that is."""
    sizes = _SIZES.unpack_from(data, at)
    mmaps, most, highest, fixed = _COUNTS.unpack_from(data, at + counts_at)
    mapped = _MAPPED.unpack_from(data, at + mapped_at)
    if not (0 <= mmaps <= highest < _MOST_MMAPS and fixed in (0, 1) and most >= 0):
        return None, 0
    if mapped[0] % _PAGE or mapped[0] > mapped[1] or mapped[1] > _MOST:
        return None, 0
    if (mmaps == 0) != (mapped[0] == 0) or mapped[0] < mmaps * _PAGE:
        return None, 0
    if mapped[2] and not (heap and heap <= mapped[2] < heap + (1 << 40)):
        return None, 0
    score = 4 * (most == 1 << 16) + 4 * bool(mapped[2]) + 2 * (sizes[3] == 8)
    score += (sizes[1] == 1 << 17) + (sizes[0] in (sizes[2], 2 * sizes[2]))
    return (Params(start + at, sizes, mmaps, mapped), score) if score >= 6 else (None, 0)


# The heap of glibc's malloc at one moment: what each arena has in use, and what is free.
#
# The process is not stopped, so its heap may change during the read. An arena with a broken chain
# of chunks is read again. If it is still broken then, `is_torn` is true.

_TRIES_HEAP = 2
_HEAP = Struct("<QQQQ")  # ar_ptr, prev, size, mprotect_size
_HEAP_SIZES = (32, 48)  # bytes of heap_info: before glibc 2.35 and from 2.35 on
_HEAP_MAX = 64 << 20  # or, with the tunable hugetlb, a multiple of the huge page size
_MOST_HEAPS = 1 << 14
_MOST_MOVES = 100
_MOST_SOUGHT = 4 << 20  # bytes searched behind memory from another caller of sbrk


class HeapPart(Record):
    """A part of an arena's memory, [start, end): from brk(2), or a heap of a thread's arena.

    `first` is its first chunk.
    """

    start: int
    end: int
    first: int
    piece: HeapWords
    resident: ResidentPages


class ArenaHeap:
    """One arena and its memory.

    `free` are (address, size) of the chunks in its bins, `fast` those in its fast bins. `top` and
    `top_size` are its last chunk, which is free. `is_torn` is true if it changed during each
    read.
    """

    __slots__ = ("arena", "fast", "free", "is_torn", "parts", "top", "top_size")

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.top = arena.top
        self.top_size = 0
        self.parts: list[HeapPart] = []
        self.free: list[tuple[int, int]] = []
        self.fast: list[tuple[int, int]] = []
        self.is_torn = False

    @property
    def free_bytes(self) -> int:
        """How many bytes are free in bins and fast bins."""
        return sum(size for _, size in self.free) + sum(size for _, size in self.fast)

    @property
    def in_use(self) -> int:
        """How many bytes are in use, as mallinfo2(3) counts them, including the threads' caches."""
        used: int = self.arena.system - self.free_bytes - self.top_size
        return max(0, used)


class GlibcHeap(Record):
    """All arenas of one C library, the threads' caches, and malloc's parameters.

    `cached` are (address, size) of chunks in caches. `params` is None if the parameters were not
    found. If `is_too_large` is true, a copy of the heap would not fit into memory, so no arena
    was read.
    """

    image: LoadedImage
    arenas: list[ArenaHeap]
    params: Params | None
    cached: list[tuple[int, int]] = fresh(list)
    is_too_large: bool = False

    @property
    def is_torn(self) -> bool:
        """Return whether any arena changed during each read."""
        return any(heap.is_torn for heap in self.arenas)

    @property
    def pin(self) -> tuple[int, int] | None:
        """The highest chunk in use below the top of the brk(2) heap: (address, size)."""
        for heap in self.arenas:
            if heap.arena.is_main and heap.parts and heap.top_size:
                return _highest_used(heap)
        return None


def read_heap(space: Space, image: LoadedImage, pages: Pages) -> GlibcHeap | None:
    """Read the heap of the C library in `image`; None if it is not glibc or was not used yet."""
    arenas = find_arenas(space, image, pages)
    if not arenas:
        return None
    heaps: list[ArenaHeap] = []
    params = find_params(space, image, pages)
    whole = GlibcHeap(image, heaps, params)
    if sum(arena.system for arena in arenas) > available() // 2:
        whole.is_too_large = True
        return whole
    for arena in arenas:
        if not arena.is_used:
            continue
        heap = ArenaHeap(arena)
        for _ in range(_TRIES_HEAP):
            heap = _read_arena(space, read_arena(space, arena), pages, params)
            if not heap.is_torn:
                break
        heaps.append(heap)
    pieces = [part.piece for heap in heaps for part in heap.parts]
    whole.cached = cached_chunks(pieces)
    return whole


def _read_arena(space: Space, arena: Arena, pages: Pages, params: Params | None) -> ArenaHeap:
    space.forget()  # the mappings may have grown
    heap = ArenaHeap(arena)
    if arena.is_main:
        _read_main(space, heap, pages, params)
    else:
        _read_heaps(space, heap, pages)
    for part in heap.parts:
        heap.free += part.piece.free
        heap.is_torn |= part.piece.broken is not None
    heap.fast, is_whole = fast_chunks(arena.fast, [part.piece for part in heap.parts])
    heap.is_torn |= not is_whole or not heap.top_size
    now = read_arena(space, arena)
    heap.arena = now
    heap.is_torn |= heap.free_bytes + heap.top_size > now.system
    return heap


def _top_of(space: Space, arena: Arena) -> tuple[int, int]:
    """Return the current start and end of an arena's top; (0, 0) if it changes all the time."""
    for _ in range(_MOST_MOVES):
        now = read_arena(space, arena)
        size = size_of(space.word(now.top + 8) or 0)
        # this memory may be the contents of a block by now
        is_top = MIN_SIZE // 2 <= size <= now.system and not (now.top + size) % _PAGE
        if is_top and read_arena(space, arena).top == now.top:
            return now.top, now.top + size
    return 0, 0


def _take_top(heap: ArenaHeap, part: HeapPart) -> None:
    """Take the last chunk of a part as the top, if the walk got to the end."""
    piece = part.piece
    if piece.broken is None and piece.last:
        heap.top, heap.top_size = piece.last, piece.end - piece.last
        part.end = piece.end


def _read_main(space: Space, heap: ArenaHeap, pages: Pages, params: Params | None) -> None:
    """Read the main arena's memory from brk(2), up to the end of its top."""
    mapping = next((each for each in space.mappings if each.path == "[heap]"), None)
    base = params.sbrk_base if params is not None else 0
    if not base and mapping is not None:
        base = mapping.start
    start, end = base + 15 & -16, _top_of(space, heap.arena)[1]
    if not start or start >= end or space.mapping_at(start) is None:
        return
    for _ in range(_MOST_HEAPS):
        piece = HeapWords(space, start, end)
        stopped = piece.walk(start, lambda: _top_of(space, heap.arena))
        resident = pages.of(start, piece.end)
        part = HeapPart(start, piece.end, start, piece, resident)
        heap.parts.append(part)
        if stopped >= piece.end or piece.broken is not None:
            _take_top(heap, part)
            return
        # two fence posts, then memory from another caller of sbrk, then more of the arena
        part.end = stopped + MIN_SIZE
        start = piece.next_chain(stopped + MIN_SIZE, _MOST_SOUGHT)
        if not start:
            piece.broken = stopped
            return


def _read_heaps(space: Space, heap: ArenaHeap, pages: Pages) -> None:
    """Read the heaps of a thread's arena, from the heap with the top back to the first."""
    arena = heap.arena
    at = _heap_of(space, arena, heap.top)
    first_heap = _heap_of(space, arena, arena.addr)
    for index in range(_MOST_HEAPS):
        info = _info(space, arena, at)
        if info is None:
            heap.is_torn = True
            return
        before, end, reserved = info
        head = arena.addr - at if at == first_heap else 0
        start = at + (head + arena.layout.size + 15 & -16 if head else _info_size(space, at))
        piece = HeapWords(space, start, end)
        piece.walk(start, _watch(space, arena, at, end))
        resident = pages.of(at, max(piece.end, reserved))
        part = HeapPart(at, piece.end, start, piece, resident)
        heap.parts.append(part)
        if not index:
            _take_top(heap, part)
        if not before:
            return
        at = before


def _watch(space: Space, arena: Arena, at: int, end: int) -> Callable[[], tuple[int, int]]:
    return lambda: _heap_now(space, arena, at, end)


def _heap_now(space: Space, arena: Arena, at: int, before: int) -> tuple[int, int]:
    """Return an arena's current top and a heap's current end; `before` if the heap is gone."""
    info = _info(space, arena, at)
    return read_arena(space, arena).top, before if info is None else info[1]


def _info(space: Space, arena: Arena, at: int) -> tuple[int, int, int] | None:
    """Return (the heap before the one at `at`, this heap's end, the end of its pages), or None."""
    data = space.read(at, _HEAP.size) if at else b""
    if len(data) < _HEAP.size:
        return None
    owner, before, size, protected = _HEAP.unpack(data)
    if owner != arena.addr or size % _PAGE or size > protected:
        return None
    return before, at + size, at + protected


def _heap_of(space: Space, arena: Arena, addr: int) -> int:
    """Return the heap that contains `addr`: a heap is aligned to its maximum size."""
    size = _HEAP_MAX
    for _ in range(10):
        at = addr & -size
        if space.word(at) == arena.addr and space.mapping_at(at) is not None:
            return at
        size *= 2
    return 0


def _info_size(space: Space, at: int) -> int:
    """Return the size of `heap_info`, which the head of the first chunk follows."""
    for size in _HEAP_SIZES:
        head = space.word(at + size + 8)
        if head and head & 5 == 5 and size_of(head) >= MIN_SIZE:
            return size
    return _HEAP_SIZES[-1]


def _highest_used(heap: ArenaHeap) -> tuple[int, int] | None:
    part = heap.parts[-1]
    fast = {addr for addr, _ in heap.fast}
    at, end = part.piece.before_last, heap.top
    while at and at in fast:
        at, end = part.piece.chunk_before(part.first, at), at
    return (at, end - at) if at else None


# Chunks that glibc's malloc has mapped one by one, of at least mmap_threshold bytes.
#
# Each begins with a chunk's head at the start of a page. `mp_` has their number and their total
# size. The kernel may have merged them with each other and with mappings of the program.

_IS_MAPPED = 2
_MOST_PAGES = 1 << 19  # pages that are checked one by one


def mapped_chunks(
    space: Space, params: Params, pages: Pages, taken: TakenRanges
) -> list[tuple[int, int]]:
    """Return (address, size) of mapped chunks; the ranges `taken` contain none."""
    if not params.mmaps:
        return []
    areas = [
        gap
        for mapping in space.mappings
        if mapping.flags == "rw-p" and not mapping.path
        for gap in taken.gaps(mapping.start, mapping.end)
    ]
    chunks: list[tuple[int, int]] = []
    left = _MOST_PAGES
    for is_thorough in (False, True):
        chunks = []
        for area in areas:
            left = _walk(space, pages, area, chunks, left if is_thorough else 0)
        if sum(size for _, size in chunks) >= params.mmapped:
            break
    return chunks


def _walk(
    space: Space, pages: Pages, area: tuple[int, int], chunks: list[tuple[int, int]], left: int
) -> int:
    """Add the chunks of one mapping; check at most `left` pages that follow no chunk."""
    start, end = area
    present = pages.of(start, end).present if left else None
    at = start
    is_due = True
    while at < end:
        if not is_due:
            if left <= 0 or present is None:
                break
            left -= 1
        touched = present is None or bool(present[(at - start) // _PAGE])
        data = space.read(at, 16) if touched else b""
        head = int.from_bytes(data[8:], "little")
        size = head & -8
        if head & 7 == _IS_MAPPED and not size % _PAGE and 0 < size <= end - at:
            chunks.append((at, size))
            at += size
            is_due = True
        else:
            at += _PAGE
            is_due = False
    return left
