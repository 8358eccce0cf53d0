# SPDX-License-Identifier: Apache-2.0
"""Divide the memory of a process by use: allocators, stacks, variables, pages."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import Name
from soscope.binfmt.elf.symboltable import CALL
from soscope.errors import FormatError
from soscope.model.record import Record
from soscope.proc import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from soscope.live.images.image import LoadedImage
    from soscope.live.images.images import Images
    from soscope.live.images.space import Space

    Words = npt.NDArray[np.uint64]


# Find out which allocator a process uses: the one whose `malloc` its images call.

GLIBC, MUSL = "glibc", "musl"
# functions that only this allocator has; the first two may have a prefix
_MARKS = {
    "jemalloc": (b"mallctlnametomib", b"je_mallctlnametomib", b"mallctl"),
    "tcmalloc": (b"tc_malloc", b"MallocExtension_Internal_GetNumericProperty"),
    "mimalloc": (b"mi_malloc", b"mi_version"),
}


class Allocator(Record):
    """An allocator: `name` is None if it is unknown; `image` defines its malloc."""

    name: str | None
    image: LoadedImage | None


def find_allocator(images: Images) -> Allocator:
    """Return the allocator that calls of malloc reach."""
    for image in [images.main] if images.is_static else images.scope():
        if images.is_static or has_symbol(image, b"malloc"):
            for name, marks in _MARKS.items():
                if any(has_symbol(image, mark) for mark in marks):
                    return Allocator(name, image)
            return Allocator(_libc(image), image)
    return Allocator(None, None)


def glibc_images(images: Images) -> list[LoadedImage]:
    """Return the images that may contain glibc's malloc, one for each namespace."""
    if images.is_static:
        return [images.main]
    return [image for image in images.linked if _is_glibc(image)]


def _libc(image: LoadedImage) -> str | None:
    if _is_glibc(image):
        return GLIBC
    names = image.name, os.path.basename(image.path), image.soname
    if any(name.startswith(("ld-musl", "libc.musl")) for name in names):
        return MUSL
    return None


def _is_glibc(image: LoadedImage) -> bool:
    return not image.is_vdso and image.soname == "libc.so.6"


def has_symbol(image: LoadedImage, name: bytes) -> bool:
    """Return whether an image defines a symbol; a program's own stub does not count."""
    if image.is_vdso:
        return False
    try:
        return image.symbols.find(Name(name), use=CALL) is not None
    except FormatError:
        return False  # damaged tables: not an allocator


# How many bytes of certain blocks lie in each page, to divide RSS among kinds of memory.

_SHIFT = 12
_PAGE = 1 << _SHIFT
_MANY = 64  # pages: longer blocks are kept as ranges


class BlockPages:
    """Bytes of blocks by page; blocks may be added in any number of steps.

    `apart` are ranges [start, end) without blocks: the tables that tell where the blocks are.
    """

    __slots__ = ("_large", "_order", "_sizes", "apart")

    def __init__(self) -> None:
        self.apart: list[tuple[int, int]] = []
        self._large: list[tuple[int, int]] = []
        self._sizes: dict[int, int] = {}
        self._order: list[int] = []  # sorted pages, made on first use

    def add(self, starts: Words, sizes: Words) -> None:
        """Add blocks, given their addresses and sizes in bytes."""
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
            unique, which = np.unique(pages, return_inverse=True)
            sums = np.bincount(which.ravel(), high - low, len(unique)).astype(np.uint64)
            for page, size in zip(unique.tolist(), sums.tolist(), strict=True):
                self._put(page, size)

    def add_each(self, blocks: Iterable[tuple[int, int]]) -> None:
        """Add blocks (address, bytes) one by one."""
        for start, size in blocks:
            if start <= 0 or size <= 0:
                continue
            end = start + size
            first, last = start >> _SHIFT, (end - 1) >> _SHIFT
            if last - first >= _MANY:
                if end < 1 << 64:
                    self._large.append((start, end))
                continue
            for page in range(first, last + 1):
                low, high = page << _SHIFT, (page + 1) << _SHIFT
                self._put(page, min(high, end) - max(low, start))

    def within(self, start: int, end: int, resident: ResidentPages) -> int:
        """Return how many bytes of the blocks lie in resident pages of [start, end)."""
        sizes = self._sizes
        total = sum(
            min(sizes[page], _PAGE)
            for page in self._between(start, end)
            if resident.has(page << _SHIFT)
        )
        for large_start, large_end in self._large:
            if large_start < end and large_end > start:
                total += resident.count(max(start, large_start), min(end, large_end))
        return total

    def around(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the range of whole pages in [start, end) that have blocks, None if none has."""
        pages = self._between(start, end)
        parts = [part for part in self._large if part[0] < end and part[1] > start]
        if pages:
            parts.append((pages[0] << _SHIFT, (pages[-1] + 1) << _SHIFT))
        if not parts:
            return None
        first, last = min(part[0] for part in parts), max(part[1] for part in parts)
        return max(start, first & -_PAGE), min(end, last + -last % _PAGE)

    def plain(self) -> tuple[dict[int, int], list[tuple[int, int]]]:
        """Return all fields as a tuple that marshal can write."""
        return self._sizes, self._large

    @classmethod
    def of_plain(cls, sizes: dict[int, int], large: list[tuple[int, int]]) -> BlockPages:
        """Return the object that `plain` has turned into a tuple."""
        made = cls()
        made._sizes, made._large = sizes, large
        return made

    def _put(self, page: int, size: int) -> None:
        self._sizes[page] = self._sizes.get(page, 0) + size

    def _between(self, start: int, end: int) -> list[int]:
        """Return the pages with blocks, from the page of `start` to the page before `end`."""
        if len(self._order) != len(self._sizes):
            self._order = sorted(self._sizes)
        low, high = (
            bisect_left(self._order, page) for page in (start >> _SHIFT, -(-end >> _SHIFT))
        )
        return self._order[low:high]


# Find words that hold their own address, by which structs of the C library are recognised.

_BLOCK = 1 << 16  # bytes in which the upper part of all addresses is equal
_LOW = 2  # bytes of an address that differ within a block
# Bytes to search for. The two bytes above them are zero, as are nearly all bytes of a thread's
# stack, through which `find` would go byte by byte.
_MIDDLE = 4


def own_words(data: bytes | bytearray, start: int, back: int = 0) -> Iterator[int]:
    """Yield the offset of each word in `data` that holds its own address less `back` bytes.

    `start` is the address of `data`, a multiple of 8. Offsets rise.

    >>> from soscope.live.heap.memory import own_words
    >>> list(own_words(bytes(8) + (0x1008).to_bytes(8, "little"), 0x1000))
    [8]
    """
    end = len(data) - 7
    for block in range(start - back & -_BLOCK, start + len(data) - back, _BLOCK):
        middle = (block // _BLOCK).to_bytes(8, "little")[:_MIDDLE]
        first = max(block - start + back, 0)
        last = min(block + _BLOCK - start + back, end)
        at = data.find(middle, first + _LOW, last + _LOW + _MIDDLE - 1)
        while at >= 0:
            word = at - _LOW
            own = start + word - back
            if not word & 7 and data[word : word + 8] == own.to_bytes(8, "little"):
                yield word
            at = data.find(middle, at + 1, last + _LOW + _MIDDLE - 1)


# The pages of a process that are in memory, by /proc/PID/pagemap.

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
    """The residency of the pages from `start` on: a byte of 0 or 1 for each page in `present`.

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


# Sorted ranges of addresses that do not overlap, for many look-ups.


class TakenRanges:
    """Ranges [start, end) of addresses whose use is known already."""

    __slots__ = ("ends", "starts")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        rows = sorted(ranges)
        self.starts = [start for start, _ in rows]
        self.ends = [end for _, end in rows]

    def meets(self, start: int, end: int) -> bool:
        """Return whether any range has an address of [start, end)."""
        at = bisect_right(self.starts, start) - 1
        if at >= 0 and self.ends[at] > start:
            return True
        return at + 1 < len(self.starts) and self.starts[at + 1] < end

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that are in none of the ranges."""
        at = max(0, bisect_right(self.starts, start) - 1)
        gaps = []
        while at < len(self.starts) and self.starts[at] < end:
            if start < self.starts[at]:
                gaps.append((start, self.starts[at]))
            start = max(start, self.ends[at])
            at += 1
        return [*gaps, (start, end)] if start < end else gaps


# CPython's own allocator of small objects: its pools, found without symbols.
#
# It maps arenas and divides them into pools, each for blocks of one size (Objects/obmalloc.c). A
# pool's header has the number of its blocks in use. Each candidate is verified: a header also has
# the last offset at which a block of the pool's size can begin.

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


# The stacks of threads, and the stacks that glibc caches for future threads.
#
# At the upper end of a stack that glibc has made lies its thread's descriptor (struct pthread),
# which contains its own address twice. A stack is mapped above inaccessible guard pages.

_DESCRIPTOR = 0x900  # bytes; the descriptor of no release is smaller
_SELF = 16  # offset of the second copy of its own address
_IDS = range(0x200, 0x400, 4)  # possible offsets of the thread's id
_MOST = 64 << 20  # resident bytes of one stack, at most
_LARGEST = 16 << 30  # bytes of one stack: a larger mapping is no stack, and slow


class ThreadStack(Record):
    """One stack [start, end); `tid` is its thread, None if that has ended."""

    start: int
    end: int
    tid: int | None


def find_stacks(space: Space, pages: Pages, taken: TakenRanges) -> list[ThreadStack]:
    """Return the stacks of all threads except the first; the ranges `taken` are not stacks."""
    by_inner = {status.inner_pid(tid): tid for tid in space.threads}
    stacks: list[ThreadStack] = []
    before = None
    for mapping in space.mappings:
        is_above_guard = (
            before is not None and before.end == mapping.start and before.flags[:3] == "---"
        )
        before = mapping
        if (
            not is_above_guard
            or mapping.flags[:2] != "rw"
            or mapping.inode
            or taken.meets(mapping.start, mapping.end)
        ):
            continue
        stack = _described(space, pages, mapping.start, mapping.end, by_inner)
        if stack is not None:
            stacks.append(stack)
    return stacks + _others(space, stacks, taken)


def _described(
    space: Space, pages: Pages, start: int, end: int, by_inner: dict[int, int]
) -> ThreadStack | None:
    """Return the stack that begins at `start`, None if it has no descriptor."""
    if end - start > _LARGEST:
        return None
    resident = pages.of(start, end)
    if resident.count(start, end) > _MOST:
        return None
    data = resident.read(space, start, end)
    if len(data) < _DESCRIPTOR:
        return None
    at = _descriptor(data, start)
    if at is None:
        return None
    ids = {int.from_bytes(data[at + offset : at + offset + 4], "little") for offset in _IDS}
    tid = next((by_inner[number] for number in ids if number in by_inner), None)
    return ThreadStack(start, min(end, start + (at + _DESCRIPTOR + 4095 & -4096)), tid)


def _descriptor(data: bytearray, start: int) -> int | None:
    """Return the offset of the descriptor in a stack that begins at `start`, or None."""
    for at in own_words(data, start):
        if data[at : at + 8] == data[at + _SELF : at + _SELF + 8]:
            return at
    return None


def _others(space: Space, known: list[ThreadStack], taken: TakenRanges) -> list[ThreadStack]:
    """Return the stacks of threads without a known descriptor, by their stack pointers."""
    stacks: list[ThreadStack] = []
    tids = {stack.tid for stack in known}
    others = TakenRanges((stack.start, stack.end) for stack in known)
    for tid in space.threads:
        if tid in tids:
            continue
        pointer = _stack_pointer(space.pid, tid)
        mapping = space.mapping_at(pointer) if pointer else None
        if mapping is None or mapping.inode or mapping.path or mapping.flags[1] != "w":
            continue
        start, end = mapping.start, mapping.end
        is_known = any(stack.start == start for stack in stacks)
        if is_known or taken.meets(start, end) or others.meets(start, end):
            continue
        stacks.append(ThreadStack(mapping.start, mapping.end, tid))
    return stacks


def _stack_pointer(pid: int, tid: int) -> int:
    """Return a thread's stack pointer, 0 if it is running (proc_pid_syscall(5))."""
    try:
        with open(f"/proc/{pid}/task/{tid}/syscall", "rb") as file:
            words = file.read().split()
    except OSError:
        return 0  # the thread has ended
    return int(words[-2], 16) if len(words) >= 3 else 0


# Variables of images that are in no file: the part of .bss behind the file's last page.

_PAGE_VARIABLES = 4096


def bss_ranges(images: Images) -> list[tuple[int, int, str]]:
    """Return (start, end, name of the image) of whole pages, as run-time addresses."""
    ranges = []
    for image in images.linked:
        if image.is_vdso:
            continue
        for segment in image.segments:
            if segment.type == c.PT_LOAD and segment.flags & c.PF_W:
                start = segment.vaddr + image.load_bias
                low = start + segment.filesz + _PAGE_VARIABLES - 1 & -_PAGE_VARIABLES
                high = start + segment.memsz + _PAGE_VARIABLES - 1 & -_PAGE_VARIABLES
                if low < high:
                    ranges.append((low, high, image.name))
    return ranges
