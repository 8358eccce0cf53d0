# SPDX-License-Identifier: Apache-2.0
"""Read the chunks of a ring while threads write them, and detect spoiled chunks."""

from __future__ import annotations

from soscope.recording.clock import Sampler
from soscope.recording.names import StackTable
from soscope.wire import layout
from soscope.wire.block import ControlBlock, Meddling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


# The chunks of a ring, read in place while threads write.
#
# The agent commits a unit by storing its first word last, and commits an entry or exit after the
# data units behind it. So all units before the first zero word are complete. See
# `soscope/stream.h`.

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


# Checks which units an agent can have written, as the target may have overwritten the ring.
#
# A unit is possible if the session's instruments write units of its type, if its slot, call site
# and stack are known, and if its time is within the session. Data is possible if each unit
# continues the one before. Arguments and results of a call can have any value.

_PAYLOAD = layout.UNIT - layout.DATA.offset("payload")
_AHEAD = 1 << 32  # ticks by which processors' counters may differ
_NO_TIME = 1 << 62
_NO_ADDR = 1 << 57
_NO_ID = 1 << 22  # more than any pid or tid
_FLAG_BITS = layout.DATA_TRUNCATED | layout.DATA_UNREADABLE | layout.DATA_NULL
_START = (1 << layout.START_BITS) - 1
_LOW = (1 << 28) - 1
_TICKS = (1 << layout.TICKS_LOW) - 1
_NUMBER = layout.MAX_CALL_SITES - 1
_WORD = (1 << 64) - 1

_CALLS = (
    layout.UNIT_ENTRY,
    layout.UNIT_ENTRY_ONLY,
    layout.UNIT_EXIT,
    layout.UNIT_OPEN,
    layout.UNIT_WHOLE,
)
_SLOTS = (layout.UNIT_ENTRY, layout.UNIT_ENTRY_ONLY, layout.UNIT_EXIT)
_NUMBERED = (layout.UNIT_OPEN, layout.UNIT_WHOLE)
_BLOCKS = tuple(range(layout.UNIT_BLOCK, layout.UNIT_KEPT + 1))
_BY_STACK = (layout.UNIT_BLOCK, layout.UNIT_BLOCK_OVER, layout.UNIT_MAPPED)
_ANYBODY = (0, layout.UNIT_OVERHEAD, layout.UNIT_NOTHING)
_KINDS = {
    layout.INSTRUMENT_TRACE: (*_CALLS, layout.UNIT_DATA),
    layout.INSTRUMENT_INJECT: (*_CALLS, layout.UNIT_DATA),
    layout.INSTRUMENT_BLOCKS: _BLOCKS,
    layout.INSTRUMENT_PROF: (layout.UNIT_REPORTED,),
}

_NONE_MAY_FOLLOW = -1  # data here belongs to no record
_ANY_MAY_FOLLOW = -2  # data of an unfinished record
_ITEM_MAY_FOLLOW = -3  # first data of a record

NOTHING = (layout.UNIT_NOTHING << 28).to_bytes(4, "little") + bytes(layout.UNIT - 4)


class Limits:
    """The limits of a session when some units were read.

    `slots`, `call_sites` and `stacks` are their numbers. `first` and `last` are the times (tsc)
    of its beginning and of now. `has_clock` means that each unit has a time.
    """

    __slots__ = ("_tops", "call_sites", "first", "has_clock", "kinds", "last", "slots", "stacks")

    def __init__(
        self,
        instruments: Iterable[int],
        *,
        slots: int,
        call_sites: int,
        stacks: int,
        first: int,
        now: int,
        has_clock: bool,
    ) -> None:
        self.kinds = {*_ANYBODY}.union(*(_KINDS.get(each, ()) for each in instruments))
        # Possible values of the highest byte of a commit word.
        self._tops = bytes(
            kind << 4 | low
            for kind in self.kinds
            for low in range(layout.DATA_PACKED + 1 if kind == layout.UNIT_DATA else 16)
        )
        self.slots = slots
        self.call_sites = call_sites
        self.stacks = stacks
        self.first = max(first - _AHEAD, 0)
        self.last = now + _AHEAD if now else _NO_TIME
        self.has_clock = has_clock

    def has_time(self, tsc: int) -> bool:
        """Return whether anything can have happened at a time."""
        return self.first <= tsc <= self.last if tsc or self.has_clock else True

    def can_be_chunk(self, header: bytes, *, is_full: bool) -> bool:
        """Return whether an agent can have written the header of a chunk."""
        seq, tid, pid, tsc, tsc_full, flags, *reserved = layout.CHUNK.struct.unpack(header)
        if not seq or any(reserved) or flags & ~layout.CHUNK_BORROWED:
            return False
        if not (0 < tid < _NO_ID and 0 < pid < _NO_ID):
            return False
        if not self.has_clock:
            return True
        return self.has_time(tsc) and (not is_full or tsc <= tsc_full <= self.last)

    def _can_be(self, unit: tuple[int, ...]) -> bool:
        """Return whether an agent can have written a unit that is no data."""
        commit, half, time, third, fourth = unit
        kind, low = commit >> 28, commit & _LOW
        if kind in _NUMBERED:
            ticks = commit & _TICKS | time >> layout.START_BITS << layout.TICKS_LOW
            span = self.last - self.first
            is_over = (time & _START) + (0 if ticks == layout.NO_TICKS else ticks) > span
            return low >> layout.TICKS_LOW & _NUMBER < self.call_sites and not is_over
        if kind in _SLOTS:
            is_known = low < self.slots and self.has_time(time)
            return is_known and (kind != layout.UNIT_EXIT or not fourth >> 32)
        if kind in _BLOCKS:
            if low and kind != layout.UNIT_BLOCK_OVER:
                return False
            is_known = kind not in _BY_STACK or half < self.stacks
            return is_known and self.has_time(time) and third < _NO_ADDR and fourth < _NO_TIME
        if kind == layout.UNIT_OVERHEAD:
            return not (low or half or fourth) and self.has_time(time) and third <= self.last
        if kind == layout.UNIT_REPORTED:
            ticks = low >> layout.REPORTED_TICKS << 32 | half
            return time <= self.last and ticks <= self.last
        return kind == 0 or not low  # a NOTHING unit

    def spoiled(self, units: bytes | memoryview) -> list[int]:
        """Return the numbers of units in a piece of a chunk that no agent has written."""
        bad: list[int] = []
        more = _NONE_MAY_FOLLOW  # remaining bytes of an item, or one of these constants
        unit: tuple[int, ...]
        for at, unit in enumerate(layout.ENTRY.struct.iter_unpack(units)):
            commit = unit[0]
            kind = commit >> 28
            if kind != layout.UNIT_DATA:
                if more > 0:
                    bad.append(at - 1)
                if kind not in self.kinds or (kind and not self._can_be(unit)):
                    bad.append(at)
                    more = _ANY_MAY_FOLLOW
                elif kind in _CALLS:
                    more = _ITEM_MAY_FOLLOW
                else:
                    more = _NONE_MAY_FOLLOW if kind else _ANY_MAY_FOLLOW
            elif more == _ANY_MAY_FOLLOW:
                continue
            elif more == _NONE_MAY_FOLLOW or kind not in self.kinds:
                bad.append(at)
                more = _ANY_MAY_FOLLOW
            else:
                what, length = commit >> 24 & 15, commit & 0xFFFF
                is_packed = what == layout.DATA_PACKED
                if what == layout.DATA_MORE:
                    follows = more == length if more >= 0 else False
                else:
                    follows = more <= 0
                if (
                    not follows
                    or what > layout.DATA_PACKED
                    or (unit[1] & ~_FLAG_BITS and not is_packed)
                ):
                    bad.append(at)
                    more = _ANY_MAY_FOLLOW
                else:
                    more = 0 if is_packed else max(length - _PAYLOAD, 0)
        if more > 0:
            bad.append(len(units) // layout.UNIT - 1)
        return bad

    def have_types(self, chunks: bytes) -> bool:
        """Return whether all units of whole chunks have types that the session writes."""
        size, first = layout.CHUNK_SIZE, layout.CHUNK_HEADER + 3  # highest byte of the commit word
        starts = range(0, len(chunks), size)
        return not any(
            chunks[at + first : at + size : layout.UNIT].translate(None, self._tops)
            for at in starts
        )


def without(units: bytes, bad: list[int]) -> bytes:
    """Return units with NOTHING in place of some of them."""
    whole = bytearray(units)
    for number in bad:
        whole[number * layout.UNIT : (number + 1) * layout.UNIT] = NOTHING
    return bytes(whole)


# Finds data that a program has overwritten in the memory that it shares with soscope.
#
# Data counts as the agent's unless it is provably wrong. Chunks are numbered as they are given out,
# so no number can be missing. Only soscope frees chunks. For their units see `possible`. Wrong data
# is left out and counted, and then no report claims to be complete.

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
        """Record that the agent has written its constant fields."""
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
