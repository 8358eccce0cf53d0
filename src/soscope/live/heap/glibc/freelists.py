# SPDX-License-Identifier: Apache-2.0
"""Free chunks that glibc's malloc marks as in use: those in fast bins and in threads' caches.

From glibc 2.32 on their links are obfuscated: a link is XORed with its own address shifted right
by twelve bits (safe-linking, malloc/malloc.c).
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.live.heap.chunks import MIN_SIZE, HeapWords, size_of

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
