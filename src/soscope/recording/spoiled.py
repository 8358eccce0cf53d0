# SPDX-License-Identifier: Apache-2.0
"""Finds what a program has written over in the memory that it shares with soscope.

The agent is right where it can be proved wrong and is not. Each chunk that was given out has the
next number, so none can be missing. Only soscope frees chunks. See `possible` for their units.
What is wrong is left out and counted: then no report says "complete".
"""

from __future__ import annotations

from soscope.recording.chunks import Chunks, in_state
from soscope.recording.clock import Sampler
from soscope.recording.possible import Limits, without
from soscope.recording.stacktable import StackTable
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from soscope.wire.meddling import Meddling

_FEW = 1 << 16  # units that are all looked at: it takes a twenty-fifth of a second
_WHOLE, _TYPES = 64, 512  # chunks behind them, of which one is looked at, or the types of a row
_AT_ONCE = 1 << 16  # numbers that may be given out between two looks: more is no number
_MISSING = 1 << 18  # numbers that nobody has seen: more have no room in a ring
_KNOWN_STATES = bytes((layout.CHUNK_FREE, layout.CHUNK_OWNED, layout.CHUNK_FULL))


class Spoiled:
    """What is wrong in one control block; `count` says how much of it was found."""

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
        self._seen = 0  # units that were looked at
        self._due = 0  # units at which a row is looked at more closely
        self._known: dict[int, bytes] = {}  # chunk in use -> how its header begins
        self._refused: dict[int, int] = {}  # chunk -> seq of the header that was counted
        self._missing: set[int] = set()  # numbers in front of the newest that nobody has seen
        self._newest = 0
        self.count = 0

    def begin(self) -> None:
        """Hear that the agent has written what it writes once."""
        self._first = self._block.tsc_start
        self._meddling.begin()

    def limits(self) -> Limits:
        """Return what there is by now."""
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
        """Return whether a chunk may be read, of which `header` is a copy of the header.

        `is_full`: it was full before the header was copied, so the header says since when.
        `limits` are what there was behind the copy, None: look.
        """
        begins = header[: layout.CHUNK.offset("tsc_full")]
        known = self._known.get(index)
        if known == begins and not is_full:
            return True
        seq = int.from_bytes(begins[:8], "little")
        can_be = (limits or self.limits()).can_be_chunk(header, is_full=is_full)
        if can_be and known != begins:
            # nobody but soscope ends what was known, and it forgets that then
            can_be = self._take(seq)
            self.count += known is not None
            if can_be:
                self._known[index] = begins
        if not can_be and self._refused.get(index) != seq:
            self._refused[index] = seq
            self.count += 1
        return can_be

    def forget(self, indices: list[int]) -> None:
        """Hear that chunks are given back."""
        for index in indices if self._known or self._refused else ():
            self._known.pop(index, None)
            self._refused.pop(index, None)

    def look(self, states: bytes) -> None:
        """Look for chunks that somebody else has given back, and for counters that go back."""
        free = [index for index in self._known if states[index] == layout.CHUNK_FREE]
        for index in free:
            del self._known[index]
        self.count += len(free) + self._meddling.look()

    def _take(self, seq: int) -> bool:
        """Return whether a chunk can have this number, and has it for the first time."""
        if seq in self._missing:
            self._missing.remove(seq)
            return True
        if self._block.when_full == layout.FULL_OVERWRITE:  # what is overwritten is counted
            return True
        if not 0 < seq - self._newest <= _AT_ONCE or len(self._missing) > _MISSING:
            return False
        self._missing.update(range(self._newest + 1, seq))
        self._newest = seq
        return True

    # ---- units ----

    def checked(self, units: bytes) -> bytes:
        """Return units of a chunk without those that no agent has written."""
        bad = self.limits().spoiled(units)
        self._seen += len(units) // layout.UNIT
        self.count += len(bad)
        return without(units, bad) if bad else units

    def checked_row(
        self, run: dict[int, int], states: bytes, row: memoryview, *, hurry: bool
    ) -> bytes | memoryview:
        """Return whole chunks with nothing in the place of what no agent has written.

        `row` are the chunks of `run`, which has the number of each; `states` were their states
        before. Behind the first units, the types of all are looked at, and all of one chunk in 64.
        With `hurry`, when threads may soon wait for these chunks, the types of one row in eight
        are looked at, and the numbers of the others.
        """
        is_many = self._seen >= _FEW
        self._seen += len(row) // layout.UNIT
        is_due = self._seen >= self._due
        if is_many and hurry and not is_due and self._are_next(run, states):
            return row
        data = self._good_chunks(run, states, bytes(row))  # a copy stays as it was checked
        head, size = layout.CHUNK_HEADER, layout.CHUNK_SIZE
        limits = self.limits()
        if is_many and data and limits.have_types(data):
            if is_due:
                self._due = self._seen + (_TYPES if hurry else _WHOLE) * size // layout.UNIT
            at = self._seen * size % len(data)  # of one chunk or another
            if hurry or not is_due or not limits.spoiled(data[at + head : at + size]):
                return data
        return b"".join([chunk[:head] + self.checked(chunk[head:]) for chunk in _chunks(data)])

    def _are_next(self, run: dict[int, int], states: bytes) -> bool:
        """Return whether full chunks were given out next; false if it is more complex."""
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
        """Return the chunks of a row that may be read, by their headers."""
        limits = self.limits()
        head, size = layout.CHUNK_HEADER, layout.CHUNK_SIZE
        good = []
        for at, (index, state) in zip(
            range(0, len(data), size), zip(run, states, strict=True), strict=True
        ):
            is_full = state == layout.CHUNK_FULL  # not if the thread has died
            if self.can_be(index, data[at : at + head], is_full=is_full, limits=limits):
                good.append(at)
        if len(good) == len(run):
            return data
        return b"".join([data[at : at + size] for at in good])

    # ---- the end ----

    def finish(self, *, dead: bool) -> None:
        """Look for what is missing; `dead`: nobody writes any more."""
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
        # a thread that was killed while it took a chunk had a number, and no chunk has it
        unmarked = [index for index in owned if not chunks.seq(index)]
        self.count += max(len(self._missing - there) - len(unmarked), 0) + (given < self._newest)


def _chunks(data: bytes) -> list[bytes]:
    size = layout.CHUNK_SIZE
    return [data[at : at + size] for at in range(0, len(data), size)]
