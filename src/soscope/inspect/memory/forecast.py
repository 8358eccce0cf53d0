# SPDX-License-Identifier: Apache-2.0
"""How much memory malloc_trim(0) would return to the kernel, and how much would stay.

glibc (malloc/malloc.c, mtrim and systrim) returns the whole pages inside each free chunk of every
arena, except the chunk's own head. Chunks in fast bins are merged first, chunks in threads'
caches stay. Of the tops, it only shrinks the main arena's, and only if no other code moved
brk(2).
"""

from __future__ import annotations

from soscope.live.heap.glibc import ArenaHeap, GlibcHeap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.space import Space

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
