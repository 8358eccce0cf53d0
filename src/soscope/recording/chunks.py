# SPDX-License-Identifier: Apache-2.0
"""The chunks of a ring, read in place while threads write.

The agent commits a unit by storing its first word last, and commits an entry or exit after the
data units behind it. So all units before the first zero word are complete. See
`soscope/stream.h`.
"""

from __future__ import annotations

from soscope.wire import layout
from soscope.wire.block import ControlBlock

UNITS = (layout.CHUNK_SIZE - layout.CHUNK_HEADER) // layout.UNIT  # units of a chunk

_CHUNK_WORDS = layout.CHUNK_SIZE // 4
_CHUNK_LONGS = layout.CHUNK_SIZE // 8
_HEADER_WORDS = layout.CHUNK_HEADER // 4
_UNIT_WORDS = layout.UNIT // 4
_SEQ = layout.CHUNK.offset("seq") // 8
_TSC = layout.CHUNK.offset("tsc") // 8
_FULL = layout.CHUNK.offset("tsc_full") // 8
_TID = layout.CHUNK.offset("tid") // 4
_PID = layout.CHUNK.offset("pid") // 4
_FLAGS = layout.CHUNK.offset("flags") // 4


class Chunks:
    """The chunks of a control block, by index. Units are numbered within a chunk.

    `seqs`, `tids` and `middles` have a word for each chunk, for readers of hundreds of chunks:
    the results of `seq` and `tid`, and the first word of the unit in the middle.
    """

    __slots__ = ("_longs", "_ring", "_words", "middles", "seqs", "tids")

    def __init__(self, block: ControlBlock) -> None:
        self._ring = block.ring
        self._words = self._ring.cast("I")
        self._longs = self._ring.cast("Q")
        self.seqs = self._longs[_SEQ::_CHUNK_LONGS]
        self.tids = self._words[_TID::_CHUNK_WORDS]
        self.middles = self._words[_HEADER_WORDS + UNITS // 2 * _UNIT_WORDS :: _CHUNK_WORDS]

    def close(self) -> None:
        """Release the views of the block's memory."""
        for view in (self.middles, self.tids, self.seqs, self._words, self._longs, self._ring):
            view.release()

    # ---- headers ----

    def seq(self, index: int) -> int:
        """Return a chunk's number in the order of allocation, 0 while its owner prepares it."""
        return self.seqs[index]

    def given_back(self, index: int) -> int:
        """Return the tsc at which a chunk's thread gave it back, 0 before that."""
        return self._longs[index * _CHUNK_LONGS + _FULL]

    def set_given_back(self, index: int, tsc: int) -> None:
        """Set when a chunk was given back, for a thread that has ended.

        The time is not before the chunk was taken.
        """
        at = index * _CHUNK_LONGS
        self._longs[at + _FULL] = max(tsc, self._longs[at + _TSC])

    def tid(self, index: int) -> int:
        """Return the id of a chunk's thread, in the thread's own pid namespace."""
        return self.tids[index]

    def pid(self, index: int) -> int:
        """Return the id of a chunk's process, in the process's own pid namespace."""
        return self._words[index * _CHUNK_WORDS + _PID]

    def is_borrowed(self, index: int) -> bool:
        """Return whether a chunk's writer is a vfork child, whose parent gives it back."""
        return bool(self._words[index * _CHUNK_WORDS + _FLAGS] & layout.CHUNK_BORROWED)

    def header(self, index: int, flags: int = 0) -> bytes:
        """Return a copy of a chunk's header, with `flags` set."""
        start = index * layout.CHUNK_SIZE
        header = bytearray(self._ring[start : start + layout.CHUNK_HEADER])
        header[_FLAGS * 4] |= flags
        return bytes(header)

    # ---- units ----

    def commit(self, index: int, unit: int) -> int:
        """Return the first word of a unit, 0 if the unit is not committed."""
        return self._words[index * _CHUNK_WORDS + _HEADER_WORDS + unit * _UNIT_WORDS]

    def units(self, index: int, first: int, end: int) -> bytes:
        """Return a copy of the units from `first` up to, and without, `end`."""
        start = index * layout.CHUNK_SIZE + layout.CHUNK_HEADER
        return bytes(self._ring[start + first * layout.UNIT : start + end * layout.UNIT])

    def row(self, first: int, count: int) -> memoryview:
        """Return a view of `count` consecutive chunks, with headers and units."""
        start = first * layout.CHUNK_SIZE
        return self._ring[start : start + count * layout.CHUNK_SIZE]

    def committed(self, index: int, first: int) -> int:
        """Return the number of the first unit from `first` on that is not committed."""
        if first >= UNITS or not self.commit(index, first):
            return first  # nothing new, as for most idle threads
        try:
            return first + self._commits(index, first).index(0)
        except ValueError:
            return UNITS

    def last_record(self, index: int) -> int:
        """Return the index of the first unit behind the last committed entry, exit or overhead."""
        commits = self._commits(index)
        for unit in range(UNITS - 1, -1, -1):
            if commits[unit] and commits[unit] >> 28 != layout.UNIT_DATA:
                return self.committed(index, unit)
        return 0

    def used(self, index: int) -> int:
        """Return the index behind the last unit of a chunk that has no writer any more.

        The chunk of a thread that has ended may be nearly empty. A chunk that is half full counts
        as full, as writing all of it costs less than searching its end.
        """
        if self.middles[index]:
            return UNITS
        commits = self._commits(index)
        return max((unit + 1 for unit, commit in enumerate(commits) if commit), default=0)

    def _commits(self, index: int, first: int = 0) -> list[int]:
        """Return the first word of each unit from `first` on."""
        at = index * _CHUNK_WORDS + _HEADER_WORDS
        return self._words[
            at + first * _UNIT_WORDS : at + UNITS * _UNIT_WORDS : _UNIT_WORDS
        ].tolist()


def in_state(states: bytes, state: int) -> list[int]:
    """Return the indices of the chunks in `state`; `states` has a byte for each."""
    indices = []
    at = states.find(state)
    while at >= 0:
        indices.append(at)
        at = states.find(state, at + 1)
    return indices
