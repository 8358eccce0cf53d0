# SPDX-License-Identifier: Apache-2.0
"""Walk the chunks of a part of the heap, one after the other (glibc's malloc/malloc.c).

A chunk's second word is its size. Its bit 0 tells whether the chunk in front is in use. Chunks in
fast bins and in threads' caches count as in use. `HeapWords` keeps the words, so that those lists
can be followed in them, too.

The process runs meanwhile, and a chunk may be merged with another between two reads. So the heap
is read in windows, each just before the walk gets there. If the chain is broken, the walk goes
back to the start of an earlier window and reads again.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.live.images.space import Space


PREV_IN_USE = 1
MIN_SIZE = 32
_FLAGS = 7
_FENCE = 16  # bytes of a fence post, as its head says; a second one has 0
_SECOND = (PREV_IN_USE, _FENCE | PREV_IN_USE)
_NEAR_END = 8  # words
_WINDOW = 32 << 10  # bytes
_WHOLE = 128  # words, more than a thread's cache has
_TRIES = 40  # times that a walk goes back from one address; at first the way back doubles each time
_FURTHEST = 6
_MOST_CUT = 1000


class HeapWords:
    """The heap from `start` on: `words` as they were read, and the results of a walk.

    `end` is the end of the heap when the walk got there. `free` are (address, size) of free
    chunks. `last` is the chunk that ends at `end`, which is the top chunk if this part has it.
    `before_last` is the chunk in front of it. Both are 0 if there is none. `broken` is the
    address at which the chain remained broken, None if it was complete.
    """

    __slots__ = ("_space", "before_last", "broken", "end", "free", "last", "start", "words")

    def __init__(self, space: Space, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.words = memoryview(bytearray(end - start)).cast("Q")
        self.free: list[tuple[int, int]] = []
        self.last = self.before_last = 0
        self.broken: int | None = None
        self._space = space

    def walk(self, first: int, now: Callable[[], tuple[int, int]]) -> int:
        """Walk from the chunk at `first` to the end, or to the fence posts in front of it.

        `now` returns the current address of the top, 0 if this part has none, and the current end
        of the heap, which may grow and shrink. Return the address at which the walk stopped.
        """
        words, start, free = self.words, self.start, self.free
        at = first - start >> 3
        limit = self.end - start >> 3
        before = prior = -1
        marks: list[tuple[int, int, int, int]] = []  # state at the start of each window
        total = tries = furthest = window = 0
        while at < limit:
            if at + _WHOLE > window:  # links and caches must not cross a window's end
                marks.append((at, before, prior, len(free)))
                window = self._read(at)
            head = words[at + 1]
            if not head & PREV_IN_USE and before >= 0:
                free.append((start + before * 8, (at - before) * 8))
            step = head >> 3 & -2
            if step >= 4 and at + step <= limit:
                prior, before = before, at
                at += step
                continue
            if self._is_fence(at, limit):
                break
            top, end = now()
            has_grown = end > self.end
            self._move_end(end or self.end)
            words, limit = self.words, self.end - start >> 3
            total += 1
            tries = tries + 1 if at <= furthest else 1
            furthest = max(furthest, at)
            if top == start + at * 8 < self.end:
                prior, before, at = before, at, limit
            if at == limit:
                break
            if has_grown and total <= _MOST_CUT:  # the chunk was not too long: the heap grew
                window = 0
                continue
            if tries > _TRIES or total > _MOST_CUT:
                self.broken = start + at * 8
                break
            del marks[max(1, len(marks) - (1 << min(tries - 1, _FURTHEST)) + 1) :]
            at, before, prior, count = marks.pop()
            del free[count:]
            window = 0
        self.last = start + before * 8 if before >= 0 else 0
        self.before_last = start + prior * 8 if prior >= 0 else 0
        return start + at * 8

    def _move_end(self, end: int) -> None:
        if end > self.start + len(self.words) * 8:
            longer = bytearray((end - self.start) * 5 // 4 & -8)  # room, as it may grow further
            longer[: len(self.words) * 8] = self.words.cast("B")
            self.words = memoryview(longer).cast("Q")
        self.end = max(end, self.start)

    def _read(self, at: int) -> int:
        """Read the window that begins at a word; return the word at which it ends."""
        low = self.start + at * 8
        high = min(low + _WINDOW, self.end)
        if low < high:
            data = self._space.read(low, high - low)
            size = len(data) & -8
            self.words[at : at + size // 8] = memoryview(data[:size]).cast("Q")
        return high - self.start >> 3

    def next_chain(self, addr: int, reach: int) -> int:
        """Return the first address near `addr` from which chunks lead to the end, 0 if none."""
        words, limit = self.words, self.end - self.start >> 3
        for at in range(addr - self.start >> 3, limit, _WINDOW >> 3):
            self._read(at)
        is_dead = bytearray(limit)  # walk each chain that leads nowhere only once
        for begin in range(addr + 15 & -16, min(addr + reach, self.end), 16):
            at = first = begin - self.start >> 3
            if not words[at + 1] & PREV_IN_USE:
                continue
            while at < limit and not is_dead[at]:
                is_dead[at] = 1
                step = words[at + 1] >> 3 & -2
                if step < 4:
                    break
                at += step
            if at == limit and first < limit:
                return begin
        return 0

    def _is_fence(self, at: int, limit: int) -> bool:
        """Return whether fence posts begin at a word; the second has size 0 or its full size."""
        head = self.words[at + 1]
        if size_of(head) == _FENCE:
            return at + 3 < len(self.words) and self.words[at + 3] in _SECOND
        return head == PREV_IN_USE and limit - at <= _NEAR_END

    def chunk_before(self, first: int, end: int) -> int:
        """Return the chunk that ends at `end`, by a walk from `first`; 0 if there is none."""
        at, limit, before = first - self.start >> 3, end - self.start >> 3, 0
        while at < limit:
            step = self.words[at + 1] >> 3 & -2
            if step < 4:
                return 0
            before, at = at, at + step
        return self.start + before * 8 if at == limit and end > first else 0


def size_of(head: int) -> int:
    """Return the size in a chunk's second word."""
    return head & ~_FLAGS
