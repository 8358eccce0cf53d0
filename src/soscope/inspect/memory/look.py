# SPDX-License-Identifier: Apache-2.0
"""Read how a process uses its memory at one moment, without stopping it or running code in it."""

from __future__ import annotations

import errno
import time
from bisect import bisect_left

from soscope.inspect.memory import model
from soscope.inspect.memory.forecast import trimmed
from soscope.inspect.memory.model import ArenaSizes, Look
from soscope.inspect.memory.steps import POOLS
from soscope.inspect.memory.sums import Claim, sum_up
from soscope.live.heap.glibc import GlibcHeap, mapped_chunks, read_heap
from soscope.live.heap.memory import (
    GLIBC,
    Allocator,
    Pages,
    TakenRanges,
    bss_ranges,
    find_allocator,
    find_pools,
    find_stacks,
    glibc_images,
    is_python,
)
from soscope.proc import maps, memory
from soscope.proc.rights import missing_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from soscope.live.heap.memory import BlockPages
    from soscope.live.images.space import Space
    from soscope.live.process import Process
    from soscope.proc.memory import Area

_LOOKS = 7  # looks after the first one, at most
_BUSY = 0.25  # part of the time that looks may take
_CHUNK_HEAD = 16
_SHARED_HEAD = 8  # bytes of a chunk's head that do not belong to its block


def look_at(process: Process, objects: BlockPages | None = None) -> Look:
    """Return how a process uses its memory. Raises NoSuchProcess, NotPermitted.

    `objects` are blocks that are known to belong to objects.
    """
    space = process.space
    if space.is_patchwork:
        raise missing_right(process.pid, "the memory", errno.EACCES)
    begin = time.monotonic()
    images = process.picture
    allocator = find_allocator(images)
    try:
        pages = Pages(space.tid, space.auxv.get(maps.AT_PAGESZ, 4096))
        areas = memory.read_smaps(space.tid)
    except PermissionError as error:
        raise missing_right(process.pid, "the memory's account", error.errno) from error
    except OSError:
        space.check()
        raise
    try:
        look = _looked(process, areas, pages, allocator, objects)
    finally:
        pages.close()
    space.check()
    look.time = begin
    return look


def watch(process: Process, first: Look, seconds: float) -> list[Look]:
    """Take further looks in the time after the first one, and return them; the last is at its end.

    If one look takes long, there are few. Raises NoSuchProcess, NotPermitted.
    """
    begin = first.time
    took = time.monotonic() - begin
    count = max(1, min(_LOOKS, int(seconds * _BUSY / max(took, 1e-3))))
    count -= count % 2 == 0  # an even number together with the first one
    looks = []
    for index in range(1, count + 1):
        time.sleep(max(0.0, begin + seconds * index / count - time.monotonic()))
        looks.append(look_at(process))
    return looks


def _looked(
    process: Process,
    areas: list[Area],
    pages: Pages,
    allocator: Allocator,
    objects: BlockPages | None,
) -> Look:
    space, images = process.space, process.picture
    look = Look(process.pid, sum(area.rss for area in areas))
    look.allocator = allocator.name
    look.is_static = images.is_static
    heaps: list[GlibcHeap] = []
    if space.bits == 64:
        heaps = [
            heap
            for image in glibc_images(images)
            if (heap := read_heap(space, image, pages)) is not None
        ]
        if heaps and look.allocator is None:
            look.allocator = GLIBC
    claims: list[Claim] = []
    for start, end, name in bss_ranges(images):
        key = model.OTHER, f"variables of {name} (.bss)"
        claims.append(Claim(start, end, key, pages.of(start, end)))
    for heap in heaps:
        claims += _of_heap(look, heap)
    for stack in find_stacks(space, pages, _taken(claims)) if space.bits == 64 else []:
        name = "threads'" if stack.tid else "ended threads', kept for new ones"
        resident = pages.of(stack.start, stack.end)
        claims.append(Claim(stack.start, stack.end, (model.STACKS, name), resident))
    for heap in heaps:
        claims += _mapped(process, look, heap, pages, _taken(claims))
    if space.bits == 64 and is_python(images):
        apart = [] if objects is None else objects.apart
        claims += _of_python(process, look, pages, _taken(claims, apart))
    if heaps:
        page = space.auxv.get(maps.AT_PAGESZ, 4096)
        look.trim = sum(trimmed(space, heap, page) for heap in heaps)
        if heaps[0].pin is not None:
            addr, size = heaps[0].pin
            look.pin = addr + _CHUNK_HEAD, size - _SHARED_HEAD
        look.moved = any(heap.is_torn for heap in heaps)
    look.unread = _unread(look, space, is_read=bool(heaps))
    if not heaps and look.allocator == GLIBC and not look.unread:
        look.trim = 0  # malloc was never called
    if any(heap.is_too_large for heap in heaps):
        look.unread = "a copy of its heap would not fit into the memory of this machine"
        look.trim = None
    if objects is not None:
        claims += _of_objects(objects, areas, claims, pages)
    unread = look.unread and look.allocator not in (None, GLIBC)
    anonymous = f"anonymous mappings, {look.allocator}'s among them" if unread else None
    sums = sum_up(areas, claims, anonymous or "anonymous mappings")
    look.parts = sums.parts()
    if look.trim is not None:  # the heap changes, so it may be less by now
        look.trim = min(look.trim, look.resident(model.FREE))
    hugetlb = sum(area.hugetlb for area in areas)
    if hugetlb:
        look.notes.append(f"{hugetlb} bytes of hugetlbfs are no part of RSS")
    swap = sum(area.swap for area in areas)
    if swap:
        look.notes.append(f"{swap} bytes are swapped out and no part of RSS")
    return look


def _unread(look: Look, space: Space, *, is_read: bool) -> str:
    """Return why the allocator's memory was not read, "" if it was."""
    if space.bits != 64:
        return f"the heap of a {space.bits}-bit program is not read"
    if look.allocator is None:
        return "its allocator is not known"
    if look.allocator != GLIBC:
        return f"what {look.allocator} has in use and what it keeps free is not read"
    if not is_read and any(each.path == "[heap]" for each in space.mappings):
        return "its heap is not laid out as in any release of glibc that is known"
    return ""


def _of_heap(look: Look, heap: GlibcHeap) -> list[Claim]:
    """Add the arenas of a heap to the look, and return the claims for their memory."""
    claims: list[Claim] = []
    cached = sorted(heap.cached)
    look.in_use -= sum(size for _, size in cached)
    for each in heap.arenas:
        arena = each.arena
        look.arenas.append(ArenaSizes(arena.addr, each.in_use, each.free_bytes, each.top_size))
        look.in_use += each.in_use
        name = "main arena" if arena.is_main else f"arena {arena.addr:#x}"
        free = sorted(each.free + each.fast)
        for part in each.parts:
            claim = Claim(part.start, part.end, (model.BLOCKS, "in arenas"), part.resident)
            for key, chunks in (
                ((model.FREE, name), free),
                ((model.FREE, "caches of threads (tcache)"), cached),
            ):
                first, last = (bisect_left(chunks, (addr,)) for addr in (part.start, part.end))
                claim.inner[key] = part.resident.count_all(chunks[first:last])
            if part.start <= each.top <= part.end:
                size = part.resident.count(each.top, each.top + each.top_size)
                claim.inner[model.FREE, f"top of {name}"] = size
            claims.append(claim)
    if heap.params is not None:
        look.settings |= {
            "mmap_threshold": heap.params.mmap_threshold,
            "trim_threshold": heap.params.trim,
            "top_pad": heap.params.top_pad,
        }
    return claims


def _of_python(process: Process, look: Look, pages: Pages, taken: TakenRanges) -> list[Claim]:
    """Return the claims for pymalloc's arenas."""
    claims = []
    for pools in find_pools(process.space, pages, taken):
        # resident pages of an arena that no pool has used yet count as free, too
        claim = Claim(pools.start, pools.end, (model.OTHER, "anonymous mappings"), pools.resident)
        claim.inner[model.OBJECTS, "Python's, of up to 512 bytes"] = pools.used
        claim.inner[model.FREE, POOLS] = pools.free
        look.in_use += pools.used_size
        claims.append(claim)
    return claims


def _of_objects(
    objects: BlockPages, areas: list[Area], claims: list[Claim], pages: Pages
) -> list[Claim]:
    """Divide claims into objects and other blocks; return claims for anonymous memory."""
    key = model.OBJECTS, "larger ones, or of another interpreter"
    for claim in claims:
        in_pools = sum(size for kind, size in claim.inner.items() if kind[0] == model.OBJECTS)
        if claim.key[0] == model.BLOCKS or in_pools:  # mapped chunks may lie next to pools
            within = objects.within(claim.start, claim.end, claim.resident)
            claim.inner[key] = max(0, within - in_pools)
    more = []
    taken = _taken(claims)
    for area in areas:
        mapping = area.mapping
        if not area.anonymous or mapping.inode or mapping.path.startswith("[stack"):
            continue
        for gap in taken.gaps(mapping.start, mapping.end):
            part = objects.around(*gap)  # gigabytes may be reserved around them
            if part is None:
                continue
            start, end = part
            claim = Claim(start, end, (model.OTHER, "anonymous mappings"), pages.of(start, end))
            claim.inner[key] = objects.within(start, end, claim.resident)
            if claim.inner[key]:
                more.append(claim)
    return more


def _taken(claims: list[Claim], more: Sequence[tuple[int, int]] = ()) -> TakenRanges:
    return TakenRanges([*((claim.start, claim.end) for claim in claims), *more])


def _mapped(
    process: Process, look: Look, heap: GlibcHeap, pages: Pages, taken: TakenRanges
) -> list[Claim]:
    """Return the claims for chunks that malloc has mapped."""
    if heap.params is None:
        return []
    look.in_use += heap.params.mmapped
    claims = []
    for addr, size in mapped_chunks(process.space, heap.params, pages, taken):
        resident = pages.of(addr, addr + size)
        claims.append(Claim(addr, addr + size, (model.BLOCKS, "mapped by malloc"), resident))
    return claims
