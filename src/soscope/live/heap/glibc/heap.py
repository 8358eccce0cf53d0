# SPDX-License-Identifier: Apache-2.0
"""The heap of glibc's malloc at one moment: what each arena has in use, and what is free.

The process is not stopped, so its heap may change during the read. An arena with a broken chain
of chunks is read again. If it is still broken then, `is_torn` is true.
"""

from __future__ import annotations

from struct import Struct

from soscope.live.heap.chunks import MIN_SIZE, HeapWords, size_of
from soscope.live.heap.glibc.arenas import Arena, find_arenas, read_arena
from soscope.live.heap.glibc.freelists import cached_chunks, fast_chunks
from soscope.live.heap.glibc.params import Params, find_params
from soscope.proc.memory import available

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.live.heap.pages import Pages, ResidentPages
    from soscope.live.images.loadedimage import LoadedImage
    from soscope.live.images.space import Space

_TRIES = 2
_HEAP = Struct("<QQQQ")  # ar_ptr, prev, size, mprotect_size
_HEAP_SIZES = (32, 48)  # bytes of heap_info: before glibc 2.35 and from 2.35 on
_HEAP_MAX = 64 << 20  # or, with the tunable hugetlb, a multiple of the huge page size
_MOST_HEAPS = 1 << 14
_PAGE = 4096
_MOST_MOVES = 100
_MOST_SOUGHT = 4 << 20  # bytes searched behind memory from another caller of sbrk


class HeapPart:
    """A part of an arena's memory, [start, end): from brk(2), or a heap of a thread's arena.

    `first` is its first chunk.
    """

    __slots__ = ("end", "first", "piece", "resident", "start")

    def __init__(
        self, start: int, end: int, first: int, piece: HeapWords, resident: ResidentPages
    ) -> None:
        self.start = start
        self.end = end
        self.first = first
        self.piece = piece
        self.resident = resident


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


class GlibcHeap:
    """All arenas of one C library, the threads' caches, and malloc's parameters.

    `cached` are (address, size) of chunks in caches. `params` is None if the parameters were not
    found. If `is_too_large` is true, a copy of the heap would not fit into memory, so no arena
    was read.
    """

    __slots__ = ("arenas", "cached", "image", "is_too_large", "params")

    def __init__(self, image: LoadedImage, arenas: list[ArenaHeap], params: Params | None) -> None:
        self.image = image
        self.arenas = arenas
        self.params = params
        self.cached: list[tuple[int, int]] = []
        self.is_too_large = False

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
        for _ in range(_TRIES):
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
