# SPDX-License-Identifier: Apache-2.0
"""The chunks of glibc's malloc, and free chunks that are marked as used."""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.live.images.space import Space


# Walk the chunks of a part of the heap, one after the other (glibc's malloc/malloc.c).
#
# A chunk's second word is its size. Its bit 0 tells whether the chunk in front is in use. Chunks in
# fast bins and in threads' caches count as in use. `HeapWords` keeps the words, so that those lists
# can be followed in them, too.
#
# The process runs meanwhile, and a chunk may be merged with another between two reads. So the heap
# is read in windows, each just before the walk gets there. If the chain is broken, the walk goes
# back to the start of an earlier window and reads again.

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


# Free chunks that glibc's malloc marks as in use: those in fast bins and in threads' caches.
#
# From glibc 2.32 on their links are obfuscated: a link is XORed with its own address shifted right
# by twelve bits (safe-linking, malloc/malloc.c).

_SHIFT = 12
_MOST_LINKED = 1 << 24
_SMALL_BINS = 64
# size of the chunk with struct tcache_perthread_struct -> number of bins: glibc 2.30 to 2.41, from
# 2.42 on
_CACHES = {0x290: 64, 0x300: 76}
_COUNT = 2  # bytes
_PLAIN = 0xFFFF_FFFF_FFFF_FFFA  # bits of a chunk's head, without two of its flags

Chunks = list[tuple[int, int]]


class _Pieces:
    """The words of all heap parts, by address."""

    def __init__(self, pieces: list[HeapWords]) -> None:
        self.pieces = sorted(pieces, key=lambda piece: piece.start)
        self._starts = [piece.start for piece in self.pieces]

    def word(self, addr: int) -> int | None:
        """Return the word at `addr`, None if no part contains it."""
        at = bisect_right(self._starts, addr) - 1
        if at < 0:
            return None
        piece = self.pieces[at]
        return piece.words[addr - piece.start >> 3] if addr < piece.end else None

    def following(self, link: int) -> int | None:
        """Return the target of the link at `link`, obfuscated or not; None if it is invalid."""
        raw = self.word(link)
        if raw is None:
            return None
        plain = raw ^ link >> _SHIFT
        for addr in (plain, raw):
            if not addr:
                return 0
            if not addr & 15 and self.word(addr) is not None:
                return addr
        return None


def fast_chunks(heads: tuple[int, ...], pieces: list[HeapWords]) -> tuple[Chunks, bool]:
    """Return (address, size) of an arena's fast-bin chunks, and whether all lists are complete."""
    words = _Pieces(pieces)
    chunks: Chunks = []
    seen: set[int] = set()
    is_whole = True
    for index, head in enumerate(heads):
        chunk, size = head, MIN_SIZE + 16 * index
        while chunk:
            word = words.word(chunk + 8)
            if word is None or size_of(word) != size or chunk in seen or len(seen) > _MOST_LINKED:
                is_whole = False
                break
            seen.add(chunk)
            chunks.append((chunk, size))
            following = words.following(chunk + 16)
            is_whole &= following is not None
            chunk = following or 0
    return chunks, is_whole


def cached_chunks(pieces: list[HeapWords]) -> Chunks:
    """Return (address, size) of the chunks in the caches of all threads.

    A cache is itself a chunk, of a certain size. It is recognised by its lists: each leads to
    chunks of the size that belongs to the list's index.
    """
    words = _Pieces(pieces)
    chunks: dict[int, int] = {}
    for piece in pieces:
        for addr, bins in _caches(piece):
            chunks |= _lists(words, addr, bins)
    return sorted(chunks.items())


def _caches(piece: HeapWords) -> Chunks:
    """Return (address, number of bins) of chunks that have the size of a cache."""
    words = piece.words
    places: Chunks = []
    uppers = bytes(words.cast("B")[9::16])  # the second byte of each word that can be a head
    for size, bins in _CACHES.items():
        at = uppers.find(size >> 8)
        while at >= 0:
            if words[2 * at + 1] & _PLAIN == size:
                places.append((piece.start + (at + 1) * 16, bins))
            at = uppers.find(size >> 8, at + 1)
    return places


def _lists(words: _Pieces, cache: int, bins: int) -> dict[int, int]:
    """Return the chunks of one cache, none if it is not a cache."""
    chunks: dict[int, int] = {}
    counts = cache
    entries = cache + bins * _COUNT
    for index in range(bins):
        entry = words.word(entries + index * 8)
        if entry is None:
            return {}
        is_counted = bins == _SMALL_BINS
        count = _count(words, counts + index * _COUNT)
        if is_counted and (count == 0) != (entry == 0):
            return {}
        length = 0
        while entry:
            head = words.word(entry - 8)
            if head is None or entry & 15 or entry in chunks:
                return {}
            size = size_of(head)
            if size < MIN_SIZE or (index < _SMALL_BINS and size != MIN_SIZE + 16 * index):
                return {}
            chunks[entry - 16] = size
            length += 1
            following = words.following(entry)
            if following is None or length > 1 << 16:
                return {}
            entry = following
        if is_counted and length != count:
            return {}
    return chunks


def _count(words: _Pieces, addr: int) -> int:
    word = words.word(addr & -8) or 0
    return word >> 8 * (addr & 7) & 0xFFFF
