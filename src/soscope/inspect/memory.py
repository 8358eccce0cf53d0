# SPDX-License-Identifier: Apache-2.0
"""The memory of a process: resident bytes by part, what grows, and possible remedies."""

from __future__ import annotations

import errno
import os
import time
from bisect import bisect_left

from soscope.errors import SoscopeError
from soscope.live.heap.glibc import ArenaHeap, GlibcHeap, mapped_chunks, read_heap
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
from soscope.live.process import Process
from soscope.model.record import Record, fresh
from soscope.proc import maps, memory
from soscope.proc.memory import Area
from soscope.proc.rights import missing_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.live.heap.memory import BlockPages, ResidentPages
    from soscope.live.images.space import Space


# How much memory malloc_trim(0) would return to the kernel, and how much would stay.
#
# glibc (malloc/malloc.c, mtrim and systrim) returns the whole pages inside each free chunk of every
# arena, except the chunk's own head. Chunks in fast bins are merged first, chunks in threads'
# caches stay. Of the tops, it only shrinks the main arena's, and only if no other code moved
# brk(2).

_HEAD = 48  # bytes at the start of a free chunk that stay
_TOP_KEPT = 33


def trimmed(space: Space, heap: GlibcHeap, page: int) -> int:
    """Return how many resident bytes malloc_trim(0) would give back."""
    return sum(_of_arena(space, arena, page) for arena in heap.arenas)


def _of_arena(space: Space, heap: ArenaHeap, page: int) -> int:
    runs, top = _merged(heap)
    total = 0
    large = [(addr, addr + size) for addr, size in runs if size > page - 1 + _HEAD]
    for part in heap.parts:
        for addr, end in large:
            if part.start <= addr < part.end:
                total += part.resident.count(addr + _HEAD + page - 1 & -page, end & -page)
    if heap.arena.is_main and heap.parts:
        end = heap.top + heap.top_size
        mapping = space.mapping_at(end - 1)
        if mapping is not None and mapping.path == "[heap]" and mapping.end == end:
            given = max(0, end - top - _TOP_KEPT) & -page
            total += heap.parts[-1].resident.count(end - given, end)
    return total


def _merged(heap: ArenaHeap) -> tuple[list[tuple[int, int]], int]:
    """Return the free chunks after merging, and the start of the top after that."""
    if not heap.fast:
        return heap.free, heap.top
    runs: list[tuple[int, int]] = []
    for addr, size in sorted(heap.free + heap.fast):
        if runs and sum(runs[-1]) == addr:
            runs[-1] = runs[-1][0], runs[-1][1] + size
        else:
            runs.append((addr, size))
    if runs and sum(runs[-1]) == heap.top:
        return runs[:-1], runs[-1][0]
    return runs, heap.top


# The results of `soscope mem where` for a process; all sizes are in bytes.

OBJECTS, BLOCKS, FREE, FILES = "objects", "blocks", "free", "files"
STACKS, SHARED, HUGE, OTHER = "stacks", "shared", "huge", "other"
KINDS = (OBJECTS, BLOCKS, FREE, FILES, STACKS, SHARED, HUGE, OTHER)

LEAK, RETENTION, UNKNOWN = "leak", "retention", "unknown"


class RssPart:
    """Resident memory of one kind (`what`); `name` distinguishes parts of a kind, else None."""

    __slots__ = ("bytes", "name", "what")

    def __init__(self, what: str, name: str | None, size: int) -> None:
        self.what = what
        self.name = name
        self.bytes = size


class ArenaSizes(Record):
    """The memory that one arena of glibc has from the kernel, resident or not.

    `free` is in its bins, `top` behind its last chunk. `in_use` is the rest, as mallinfo2(3)
    counts it.
    """

    addr: int
    in_use: int
    free: int
    top: int


class Look(Record):
    """The memory of a process at one moment; `parts` add up to `rss`, the largest first.

    `allocator` is None if it is unknown. `unread` is why its memory could not be read, "" if it
    was. `trim` is how much malloc_trim(0) would return to the kernel, None if that is not known.
    `pin` is the highest block in use below the top of the heap: its address as the program knows
    it, and its usable bytes. `in_use` is the number of allocated bytes, resident or not. `notes`
    are further remarks. `moved` tells that memory changed during the read. `settings` has the
    names of malloc's parameters that were set: "mmap_threshold", "top_pad", "trim_threshold". If
    `is_static` is true, calls of malloc do not go through slots.
    """

    pid: int
    rss: int
    time: float = 0.0
    parts: list[RssPart] = fresh(list)
    arenas: list[ArenaSizes] = fresh(list)
    allocator: str | None = None
    unread: str = ""
    trim: int | None = None
    pin: tuple[int, int] | None = None
    in_use: int = 0
    is_static: bool = False
    moved: bool = False
    notes: list[str] = fresh(list)
    settings: dict[str, int] = fresh(dict)

    def resident(self, *kinds: str) -> int:
        """Return how many bytes of these kinds are resident."""
        return sum(part.bytes for part in self.parts if part.what in kinds)


class Verdict:
    """LEAK, RETENTION or UNKNOWN, the reason `why` in one sentence, and the `next` steps."""

    __slots__ = ("next", "verdict", "why")

    def __init__(self, verdict: str, why: str, steps: list[str]) -> None:
        self.verdict = verdict
        self.why = why
        self.next = steps


# Advice on memory that allocators keep: the settings that fit the findings.

LOOK_LONGER = "--duration 60s looks again and shows what grows"
POOLS = "Python's pools (pymalloc)"

_DEFAULT = 128 << 10  # default of malloc's thresholds, which grow automatically
_APART = (
    "Python unmaps an arena when no object is left in it: make objects that stay before those "
    "that go, or the many that go in a process of their own"
)
_UNREAD = {
    "jemalloc": (
        "MALLOC_CONF=stats_print:true: jemalloc says at the end what it kept",
        "MALLOC_CONF=background_thread:true,dirty_decay_ms:1000 gives back sooner",
    ),
    "mimalloc": (
        "MIMALLOC_SHOW_STATS=1: mimalloc says at the end what it kept",
        "MIMALLOC_PURGE_DELAY=0 gives back sooner",
    ),
    "tcmalloc": ("TCMALLOC_RELEASE_RATE=10 gives back sooner",),
}


def against_retention(look: Look) -> list[str]:
    """Return the steps against free memory that a process's allocators keep."""
    free = max(1, look.resident(FREE))
    pools = _named(look, POOLS)
    if 2 * pools > free:
        return [_APART]
    steps = []
    free = max(1, free - pools)
    is_given = look.trim is not None and look.trim * 2 >= free
    if is_given and not look.is_static:
        steps.append(f"soscope mem trim -p {look.pid} gives back {size(look.trim or 0)} now")
    main = _named(look, "main arena") + _named(look, "top of main arena")
    if len(look.arenas) > 2 and 2 * main < free:
        steps.append("MALLOC_ARENA_MAX=2 in its environment: fewer arenas, less kept by each")
    else:
        if look.settings.get("mmap_threshold", 0) > _DEFAULT:
            steps.append(
                "MALLOC_MMAP_THRESHOLD_=131072: big blocks are mapped, and unmapped when freed"
            )
        if look.settings.get("trim_threshold", 0) > _DEFAULT:
            steps.append("MALLOC_TRIM_THRESHOLD_=131072: the top is given back sooner")
    if is_given:
        steps.append("a call of malloc_trim(0) in the program after each peak")
    elif look.trim is not None:
        steps.append("jemalloc or mimalloc, which hold blocks of one size together")
    return steps or [LOOK_LONGER]


def for_unread(look: Look, *, is_once: bool) -> list[str]:
    """Return the steps if the allocator's memory was not read."""
    steps = [LOOK_LONGER] if is_once else []
    return steps + list(_UNREAD.get(look.allocator or "", ()))


def size(count: int) -> str:
    """Return a number of bytes as text with a unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def _named(look: Look, name: str) -> int:
    return sum(part.bytes for part in look.parts if part.name == name)


# Assign each resident byte to one part, by the areas of a process and the claims in them.

Key = tuple[str, str | None]

_SHARED = (
    "/dev/shm/",  # noqa: S108  names of mappings
    "/memfd:",
    "/SYSV",
    "/dev/zero",
    "/[aio]",
    "anon_inode:",
    "/dev/hugepages",
)
_DELETED = " (deleted)"


class Claim(Record):
    """A range [start, end) of a known kind `key`, except for the bytes in `inner`.

    `inner` maps other keys to resident bytes that lie in the range, too.
    """

    start: int
    end: int
    key: Key
    resident: ResidentPages
    inner: dict[Key, int] = fresh(dict)


class Sums(Record):
    """Resident bytes by kind and name, each byte once."""

    sizes: dict[Key, int] = fresh(dict)

    def add(self, key: Key, size: int) -> None:
        """Add bytes."""
        if size > 0:
            self.sizes[key] = self.sizes.get(key, 0) + size

    def parts(self) -> list[RssPart]:
        """Return the parts, kind by kind, the largest of each kind first."""
        parts = [RssPart(what, name, size) for (what, name), size in self.sizes.items()]
        return sorted(parts, key=lambda part: (KINDS.index(part.what), -part.bytes))


def sum_up(areas: list[Area], claims: list[Claim], anonymous: str) -> Sums:
    """Divide the resident bytes of all areas; unclaimed bytes of no file are named `anonymous`.

    Claimed bytes are counted page by page, a moment after the areas. If both differ, the area's
    own sum counts.
    """
    sums = Sums()
    claims = sorted(claims, key=lambda claim: claim.start)
    shares = [0] * len(claims)
    first = 0
    for area in areas:
        start, end = area.mapping.start, area.mapping.end
        while first < len(claims) and claims[first].end <= start:
            first += 1
        left, index = area.rss, first
        while index < len(claims) and claims[index].start < end:
            claim = claims[index]
            low, high = max(start, claim.start), min(end, claim.end)
            share = min(left, claim.resident.count(low, high))
            shares[index] += share
            left -= share
            index += 1
        _add_rest(sums, area, left, anonymous)
    for claim, total in zip(claims, shares, strict=True):
        rest = total
        for key, size in claim.inner.items():
            share = min(rest, size)
            sums.add(key, share)
            rest -= share
        sums.add(claim.key, rest)
    return sums


def _add_rest(sums: Sums, area: Area, left: int, anonymous: str) -> None:
    """Add the unclaimed bytes of an area."""
    path, is_shared = area.mapping.path, area.mapping.flags[3:4] == "s"
    if path.startswith(_SHARED) or path.startswith("[anon_shmem:"):
        # a private mapping of /dev/zero is ordinary memory
        if is_shared or not path.startswith("/dev/zero"):
            sums.add((SHARED, _base(path)), left)
            return
    elif path.startswith("/"):
        sums.add((FILES, _base(path)), left)
        return
    elif path == "[stack]":
        sums.add((STACKS, "the first thread's"), left)
        return
    huge = min(area.huge, left)
    sums.add((HUGE, "transparent huge pages"), huge)
    name = path.removesuffix(_DELETED) or anonymous
    sums.add((OTHER, name), left - huge)


def _base(path: str) -> str:
    """Return the name of a file without its folders."""
    path = path.removesuffix(_DELETED)
    return os.path.basename(path) or path


# Read how a process uses its memory at one moment, without stopping it or running code in it.

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
        key = OTHER, f"variables of {name} (.bss)"
        claims.append(Claim(start, end, key, pages.of(start, end)))
    for heap in heaps:
        claims += _of_heap(look, heap)
    for stack in find_stacks(space, pages, _taken(claims)) if space.bits == 64 else []:
        name = "threads'" if stack.tid else "ended threads', kept for new ones"
        resident = pages.of(stack.start, stack.end)
        claims.append(Claim(stack.start, stack.end, (STACKS, name), resident))
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
        look.trim = min(look.trim, look.resident(FREE))
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
            claim = Claim(part.start, part.end, (BLOCKS, "in arenas"), part.resident)
            for key, chunks in (
                ((FREE, name), free),
                ((FREE, "caches of threads (tcache)"), cached),
            ):
                first, last = (bisect_left(chunks, (addr,)) for addr in (part.start, part.end))
                claim.inner[key] = part.resident.count_all(chunks[first:last])
            if part.start <= each.top <= part.end:
                size = part.resident.count(each.top, each.top + each.top_size)
                claim.inner[FREE, f"top of {name}"] = size
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
        claim = Claim(pools.start, pools.end, (OTHER, "anonymous mappings"), pools.resident)
        claim.inner[OBJECTS, "Python's, of up to 512 bytes"] = pools.used
        claim.inner[FREE, POOLS] = pools.free
        look.in_use += pools.used_size
        claims.append(claim)
    return claims


def _of_objects(
    objects: BlockPages, areas: list[Area], claims: list[Claim], pages: Pages
) -> list[Claim]:
    """Divide claims into objects and other blocks; return claims for anonymous memory."""
    key = OBJECTS, "larger ones, or of another interpreter"
    for claim in claims:
        in_pools = sum(size for kind, size in claim.inner.items() if kind[0] == OBJECTS)
        if claim.key[0] == BLOCKS or in_pools:  # mapped chunks may lie next to pools
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
            claim = Claim(start, end, (OTHER, "anonymous mappings"), pages.of(start, end))
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
        claims.append(Claim(addr, addr + size, (BLOCKS, "mapped by malloc"), resident))
    return claims


# The resident memory of a process in six parts, as in every report of `soscope mem`.


def divide(pid: int, objects: BlockPages | None = None) -> list[int] | None:
    """Return the resident bytes of process `pid`: objects, native, slack, files, stacks, other.

    `objects` are blocks that are known to belong to objects. The process is not stopped. Return
    None if its memory cannot be read.
    """
    try:
        with Process(pid, is_gentle=True) as process:
            look = look_at(process, objects)
    except (SoscopeError, OSError, ValueError):
        return None
    return [
        look.resident(*kinds)
        for kinds in (
            (OBJECTS,),
            (BLOCKS,),
            (FREE,),
            (FILES,),
            (STACKS,),
            (SHARED, HUGE, OTHER),
        )
    ]


# Leak or retention: the verdict on one look or on a series of looks.
#
# The memory that a program uses goes up and down. So growth of memory in use is measured between
# the minima of the first and the second half of the time. Growth of memory that is kept free is
# measured between the maxima.

_MUCH = 1 << 20  # bytes kept by the allocator that count as much
_SHARE = 5  # a fifth of RSS, at least
_NOISE = 128 << 10  # bytes by which the memory of every program varies
_NOISE_SHARE = 200


def judge(looks: list[Look]) -> Verdict:
    """Return the verdict on one look, or on several in the order of their time."""
    now = looks[-1]
    is_once = len(looks) == 1
    verdict = None if is_once else _grown(looks)
    if verdict is not None:
        return verdict
    free = now.resident(FREE)
    if free >= _MUCH and free * _SHARE >= now.rss:
        return Verdict(RETENTION, _retention(now, free), against_retention(now))
    if now.unread:
        told = "" if is_once else f", and in {_seconds(looks)} s {_little(looks, 'its memory')}"
        why = f"{now.unread[:1].upper()}{now.unread[1:]}{told}."
        return Verdict(UNKNOWN, why, for_unread(now, is_once=is_once))
    if is_once:
        why = (
            f"{size(now.in_use)} are in use and {size(free)} are kept free: one look does not "
            "tell what is needed from what leaks."
        )
        return Verdict(UNKNOWN, why, [LOOK_LONGER])
    why = f"In {_seconds(looks)} s {_little(looks, 'what is in use')}."
    return Verdict(UNKNOWN, why, ["--duration with a longer time, while the program is at work"])


def _little(looks: list[Look], what: str) -> str:
    """Return a text that memory has not grown by more than normal variation."""
    used = _growth([_held(look) for look in looks], min)
    free = _growth([look.resident(FREE) for look in looks], max)
    grown = max(used, free)
    if grown <= 0:
        return f"neither {what} nor what is kept free has grown"
    which = what if used >= free else "what is kept free"
    return f"{which} has grown by {size(grown)}, which is too little to judge by"


def _held(look: Look) -> int:
    return look.in_use + look.resident(OTHER, HUGE)


def _grown(looks: list[Look]) -> Verdict | None:
    """Return the verdict by growth between looks, None if nothing has grown."""
    last, seconds = looks[-1], _seconds(looks)
    noise = max(_NOISE, last.rss // _NOISE_SHARE)
    used = _growth([look.in_use for look in looks], min)
    other = _growth([look.resident(OTHER, HUGE) for look in looks], min)
    free = _growth([look.resident(FREE) for look in looks], max)
    if used > noise and used >= max(other, free):
        why = (
            f"What is in use has grown by at least {size(used)} in {seconds} s, "
            f"what is kept free by {size(max(0, free))}."
        )
        return Verdict(LEAK, why, _steps_leak(looks))
    if other > noise and other >= free:
        grown = f"grown by at least {size(other)} in {seconds} s"
        if last.unread:
            why = f"Anonymous memory has {grown}, but {last.unread}."
            return Verdict(UNKNOWN, why, for_unread(last, is_once=False))
        why = f"Memory that no allocator here has mapped has {grown}."
        steps = [
            f"soscope mem live -p {last.pid} --blocks shows where it is mapped",
            f"soscope trace -p {last.pid} -e 'mmap*,munmap' shows the calls",
        ]
        if last.is_static:
            steps = [f"strace -k -p {last.pid} -e trace=mmap,munmap shows who maps it"]
        return Verdict(LEAK, why, steps)
    if free > noise:
        why = (
            f"What is kept free has grown by at least {size(free)} in {seconds} s, "
            f"what is in use by {size(max(0, used, other))}."
        )
        return Verdict(RETENTION, why, against_retention(last))
    return None


def _growth(sizes: list[int], of: Callable[[list[int]], int]) -> int:
    """Return the difference of the minima, or maxima, between the second half and the first."""
    half = len(sizes) // 2
    return of(sizes[half:]) - of(sizes[:half])


def _seconds(looks: list[Look]) -> int:
    return max(1, round(looks[-1].time - looks[0].time))


def _steps_leak(looks: list[Look]) -> list[str]:
    """Return the next steps against a leak: objects belong to Python, blocks to malloc."""
    first, last = looks[0].resident(OBJECTS), looks[-1].resident(OBJECTS)
    blocks = looks[-1].resident(BLOCKS) - looks[0].resident(BLOCKS)
    if last - first > blocks:
        return ["soscope mem snapshot shows which lines make the objects that stay"]
    if looks[-1].is_static:
        return ["linked with a shared C library, soscope mem leaks shows what is not freed"]
    return ["soscope mem leaks shows which calls of malloc are not freed"]


def _retention(look: Look, free: int) -> str:
    share = 100 * free // max(1, look.rss)
    why = f"{size(free)} are free inside the allocator, {share} % of RSS"
    if look.trim is None:
        return f"{why}."
    if look.trim * 2 >= free:
        return f"{why}; malloc_trim would give back {size(look.trim)}."
    return f"{why}; blocks in use between them keep all but {size(look.trim)} from going back."
