# SPDX-License-Identifier: Apache-2.0
"""Find the line of an instruction of Ruby code.

A table has an entry for each instruction that begins a new part. A succinct index tells how many
of those begin up to a given position (iseq.c, succ_index_lookup): seven bits each for the first
54 positions, then blocks of 512 with one bit for each.
"""

from __future__ import annotations

from struct import Struct, unpack_from

from soscope.binfmt.source import ByteSource

_FIRST, _A_WORD, _BITS = 54, 9, 7
_FIRST_SIZE = 8 * _FIRST // _A_WORD
_BLOCK = Struct("<I4xQ8Q")  # number before the block, numbers before each of its words, the bits
_IN_BLOCK = 512
_RANK_BITS = 9
_MOST = 1 << 24


class RubyLines:
    """The lines of one piece of code."""

    __slots__ = ("_index", "_lines")

    def __init__(self, lines: list[int], index: bytes) -> None:
        """Take the line of each entry, and the index, which is empty if there is one entry."""
        self._lines = lines
        self._index = index

    @classmethod
    def read(cls, memory: ByteSource, table: bytes, entry_size: int, size: int) -> RubyLines | None:
        """Read the lines for code of `size` words from `table`, a `struct iseq_insn_info`.

        Return None if they cannot be read.
        """
        entries, _, count, index = unpack_from("<QQI4xQ", table)
        if count * entry_size > _MOST or size > _MOST:
            return None
        data = memory.read(entries, count * entry_size)
        if len(data) < count * entry_size:
            return None
        lines = [unpack_from("<i", data, at)[0] for at in range(0, len(data), entry_size)]
        blocks = max(size - _FIRST + _IN_BLOCK - 1, 0) // _IN_BLOCK
        length = _FIRST_SIZE + blocks * _BLOCK.size
        succinct = memory.read(index, length) if count > 1 else b""
        return cls(lines, succinct) if count <= 1 or len(succinct) == length else None

    def line(self, place: int) -> int | None:
        """Return the line of the instruction that contains the word at `place`."""
        if len(self._lines) <= 1:
            return self._lines[0] if self._lines else None
        at = self._rank(place) - 1
        return self._lines[at] if 0 <= at < len(self._lines) else None

    def _rank(self, place: int) -> int:
        if place < _FIRST:
            word, part = divmod(place, _A_WORD)
            return int(unpack_from("<Q", self._index, 8 * word)[0] >> part * _BITS & 0x7F)
        block, bit = divmod(place - _FIRST, _IN_BLOCK)
        at = _FIRST_SIZE + block * _BLOCK.size
        if at + _BLOCK.size > len(self._index):
            return 0
        before, ranks, *words = _BLOCK.unpack_from(self._index, at)
        word, bit = divmod(bit, 64)
        rank = ranks >> (word - 1) * _RANK_BITS & 0x1FF if word else 0
        return int(before + rank + (words[word] & (2 << bit) - 1).bit_count())
