# SPDX-License-Identifier: Apache-2.0
"""CPython's own allocator of small objects: its pools, found without symbols.

It maps arenas and divides them into pools, each for blocks of one size (Objects/obmalloc.c). A
pool's header has the number of its blocks in use. Each candidate is verified: a header also has
the last offset at which a block of the pool's size can begin.
"""

from __future__ import annotations

from struct import Struct

from soscope.live.heap.ranges import TakenRanges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.pages import Pages, ResidentPages
    from soscope.live.images.images import Images
    from soscope.live.images.space import Space

_HEAD = Struct(
    "<I4xQQQIIII"
)  # count, free block, next, previous, arena, class, next and last offset
_OVERHEAD = 48
_POOLS = (1 << 14, 1 << 12)  # bytes of a pool: from Python 3.10 on, before
_CLASSES = 32
_ALIGN = 16
_WINDOW = 1 << 18  # bytes of one read, a multiple of a pool's size
_SURE = 4  # headers of one mapping that suffice as proof

# an image that defines one of them belongs to CPython
_NAMES = (b"_PyRuntime", b"PyObject_Malloc")


class Pools:
    """The pools in one range [start, end), with `used` and `free` resident bytes.

    `blocks` counts the blocks in use, `used_size` their bytes, resident or not.
    """

    __slots__ = ("blocks", "end", "free", "resident", "start", "used", "used_size")

    def __init__(self, start: int, end: int, resident: ResidentPages) -> None:
        self.start = start
        self.end = end
        self.resident = resident
        self.blocks = self.used = self.used_size = self.free = 0

    def add(self, addr: int, size: int, blocks: int, block_size: int) -> None:
        """Add a pool of `size` bytes at `addr`."""
        present = self.resident.count(addr, addr + size)
        used = min(blocks * block_size, present)
        self.blocks += blocks
        self.used_size += blocks * block_size
        self.used += used
        self.free += present - used


def is_python(images: Images) -> bool:
    """Return whether the process runs CPython."""
    from soscope.live.heap.allocator import has_symbol

    return any(has_symbol(image, name) for image in images.linked for name in _NAMES)


def find_pools(space: Space, pages: Pages, taken: TakenRanges) -> list[Pools]:
    """Return the pools of all mappings; the ranges `taken` contain none."""
    areas: list[Pools] = []
    for mapping in space.mappings:
        if mapping.flags == "rw-p" and not mapping.path:
            for start, end in taken.gaps(mapping.start, mapping.end):
                pools = _read(space, pages, start, end)
                if pools is not None:
                    areas.append(pools)
    return areas


def _read(space: Space, pages: Pages, start: int, end: int) -> Pools | None:
    """Return the pools between two addresses, None if there are none."""
    resident = pages.of(start, end)
    heads: dict[int, list[tuple[int, int, int]]] = {size: [] for size in _POOLS}
    for low in range(start & -_WINDOW, end, _WINDOW):
        first, last = max(low, start), min(low + _WINDOW, end)
        if not resident.count(first, last):
            continue
        data = resident.read(space, first, last)
        for size, of_size in heads.items():
            if size != _POOLS[0] and len(heads[_POOLS[0]]) >= _SURE:
                break  # the other pool sizes are not tried
            for addr in range(first + size - 1 & -size, last - size + 1, size):
                head = _pool(data, addr - first, size) if resident.has(addr) else None
                if head is not None:
                    of_size.append((addr, *head))
    for size, of_size in heads.items():
        if len(of_size) >= _SURE:
            pools = Pools(start, end, resident)
            for addr, blocks, block_size in of_size:
                pools.add(addr, size, blocks, block_size)
            return pools
    return None


def _pool(data: bytearray, at: int, size: int) -> tuple[int, int] | None:
    """Return a pool's number of blocks in use, and their size; None if it is not a pool."""
    count, block, _, _, _, index, following, last = _HEAD.unpack_from(data, at)
    block_size = (index + 1) * _ALIGN
    if index >= _CLASSES or last != size - block_size or block & _ALIGN - 1:
        return None
    most = (size - _OVERHEAD) // block_size
    if count > most or not _OVERHEAD <= following <= size:
        return None
    return count, block_size
