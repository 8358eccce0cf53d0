# SPDX-License-Identifier: Apache-2.0
"""Finds data that a program has overwritten in the memory that it shares with soscope.

Data counts as the agent's unless it is provably wrong. Chunks are numbered as they are given out,
so no number can be missing. Only soscope frees chunks. For their units see `possible`. Wrong data
is left out and counted, and then no report claims to be complete.
"""

from __future__ import annotations

from soscope.recording.chunks import Chunks, in_state
from soscope.recording.clock import Sampler
from soscope.recording.possible import Limits, without
from soscope.recording.stacktable import StackTable
from soscope.wire import layout
from soscope.wire.block import ControlBlock, Meddling

_FEW = 1 << 16  # units that are all checked, in a twenty-fifth of a second
_WHOLE, _TYPES = 64, 512  # later: one chunk, or one row's types, in so many chunks
_AT_ONCE = 1 << 16  # numbers that can be given out between two looks
_MISSING = 1 << 18  # missing numbers that can exist: a ring has no room for more
_KNOWN_STATES = bytes((layout.CHUNK_FREE, layout.CHUNK_OWNED, layout.CHUNK_FULL))


class Spoiled:
    """The damage in one control block. `count` is how much was found."""

    __slots__ = (
        "_block",
        "_chunks",
        "_clock",
        "_due",
        "_first",
        "_known",
        "_meddling",
        "_missing",
        "_newest",
        "_refused",
        "_seen",
        "_stacks",
        "count",
    )

    def __init__(self, block: ControlBlock, chunks: Chunks, clock: Sampler) -> None:
        self._block = block
        self._chunks = chunks
        self._clock = clock
        self._stacks = StackTable(block)
        self._meddling = Meddling(block)
        self._first = 0  # tsc at which the session began
        self._seen = 0  # units that were checked
        self._due = 0  # number of units at which a row is checked thoroughly
        self._known: dict[int, bytes] = {}  # chunk in use -> beginning of its header
        self._refused: dict[int, int] = {}  # chunk -> seq of the invalid header that was counted
        self._missing: set[int] = set()  # numbers below the newest that were not seen
        self._newest = 0
        self.count = 0

    def begin(self) -> None:
        """Take note that the agent has written its constant fields."""
        self._first = self._block.tsc_start
        self._meddling.begin()

    def limits(self) -> Limits:
        """Return the present limits of the session."""
        block = self._block
        off = block.flags & layout.FLAG_NO_CLOCK or block.agent_flags & layout.AGENT_TSC_OFF
        return Limits(
            block.instruments,
            slots=block.slot_count,
            call_sites=block.call_site_count,
            stacks=self._stacks.used,
            first=self._first,
            now=self._clock.ticks(),
            has_clock=not off,
        )

    # ---- chunks ----

    def can_be(
        self, index: int, header: bytes, *, is_full: bool, limits: Limits | None = None
    ) -> bool:
        """Return whether a chunk may be read. `header` is a copy of its header.

        With `is_full`, it was full before the header was copied, so the header has the time.
        `limits` are the limits after the copy, None to read them.
        """
        begins = header[: layout.CHUNK.offset("tsc_full")]
        known = self._known.get(index)
        if known == begins and not is_full:
            return True
        seq = int.from_bytes(begins[:8], "little")
        can_be = (limits or self.limits()).can_be_chunk(header, is_full=is_full)
        if can_be and known != begins:
            # Only soscope ends the use of a chunk, and then forgets it here.
            can_be = self._take(seq)
            self.count += known is not None
            if can_be:
                self._known[index] = begins
        if not can_be and self._refused.get(index) != seq:
            self._refused[index] = seq
            self.count += 1
        return can_be

    def forget(self, indices: list[int]) -> None:
        """Forget chunks that are given back."""
        for index in indices if self._known or self._refused else ():
            self._known.pop(index, None)
            self._refused.pop(index, None)

    def look(self, states: bytes) -> None:
        """Find chunks that were given back by something else, and counters that go back."""
        free = [index for index in self._known if states[index] == layout.CHUNK_FREE]
        for index in free:
            del self._known[index]
        self.count += len(free) + self._meddling.look()

    def _take(self, seq: int) -> bool:
        """Return whether a chunk can have this number, and has it for the first time."""
        if seq in self._missing:
            self._missing.remove(seq)
            return True
        if self._block.when_full == layout.FULL_OVERWRITE:  # counted elsewhere
            return True
        if not 0 < seq - self._newest <= _AT_ONCE or len(self._missing) > _MISSING:
            return False
        self._missing.update(range(self._newest + 1, seq))
        self._newest = seq
        return True

    # ---- units ----

    def checked(self, units: bytes) -> bytes:
        """Return units of a chunk without units that no agent has written."""
        bad = self.limits().spoiled(units)
        self._seen += len(units) // layout.UNIT
        self.count += len(bad)
        return without(units, bad) if bad else units

    def checked_row(
        self, run: dict[int, int], states: bytes, row: memoryview, *, hurry: bool
    ) -> bytes | memoryview:
        """Return whole chunks with NOTHING in place of units that no agent has written.

        `row` are the chunks of `run`, which has their numbers. `states` were their states before.
        After the first units, the types of all units are checked, and everything of one chunk in
        64. With `hurry`, when threads may soon wait for these chunks, the types of one row in
        eight are checked, and the numbers of the others.
        """
        is_many = self._seen >= _FEW
        self._seen += len(row) // layout.UNIT
        is_due = self._seen >= self._due
        if is_many and hurry and not is_due and self._are_next(run, states):
            return row
        data = self._good_chunks(run, states, bytes(row))  # a copy cannot change after the check
        head, size = layout.CHUNK_HEADER, layout.CHUNK_SIZE
        limits = self.limits()
        if is_many and data and limits.have_types(data):
            if is_due:
                self._due = self._seen + (_TYPES if hurry else _WHOLE) * size // layout.UNIT
            at = self._seen * size % len(data)  # a different chunk each time
            if hurry or not is_due or not limits.spoiled(data[at + head : at + size]):
                return data
        return b"".join([chunk[:head] + self.checked(chunk[head:]) for chunk in _chunks(data)])

    def _are_next(self, run: dict[int, int], states: bytes) -> bool:
        """Return whether full chunks have the next numbers; False in complicated cases."""
        newest = self._newest
        if (
            self._block.when_full == layout.FULL_OVERWRITE
            or states.count(layout.CHUNK_FULL) < len(run)
            or not self._known.keys().isdisjoint(run)
            or list(run.values()) != list(range(newest + 1, newest + 1 + len(run)))
        ):
            return False
        self._newest += len(run)
        return True

    def _good_chunks(self, run: dict[int, int], states: bytes, data: bytes) -> bytes:
        """Return the chunks of a row that may be read, judged by their headers."""
        limits = self.limits()
        head, size = layout.CHUNK_HEADER, layout.CHUNK_SIZE
        good = []
        for at, (index, state) in zip(
            range(0, len(data), size), zip(run, states, strict=True), strict=True
        ):
            is_full = state == layout.CHUNK_FULL  # False if the thread has died
            if self.can_be(index, data[at : at + head], is_full=is_full, limits=limits):
                good.append(at)
        if len(good) == len(run):
            return data
        return b"".join([data[at : at + size] for at in good])

    # ---- the end ----

    def finish(self, *, dead: bool) -> None:
        """Find what is missing. With `dead`, there are no writers any more."""
        block, chunks = self._block, self._chunks
        states = block.chunk_states()
        self.look(states)
        self.count += self._meddling.finish() + block.spoiled_counts()
        self.count += len(states.translate(None, _KNOWN_STATES))
        if block.when_full == layout.FULL_OVERWRITE or not dead:
            return
        owned = in_state(states, layout.CHUNK_OWNED)
        there = {chunks.seq(index) for index in owned + in_state(states, layout.CHUNK_FULL)}
        given = block.ring_seq
        self._missing.update(range(self._newest + 1, min(given, self._newest + _AT_ONCE) + 1))
        # If a thread was killed while it took a chunk, its number is used, but no chunk has it.
        unmarked = [index for index in owned if not chunks.seq(index)]
        self.count += max(len(self._missing - there) - len(unmarked), 0) + (given < self._newest)


def _chunks(data: bytes) -> list[bytes]:
    size = layout.CHUNK_SIZE
    return [data[at : at + size] for at in range(0, len(data), size)]
