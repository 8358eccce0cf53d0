# SPDX-License-Identifier: Apache-2.0
"""Checks which units an agent can have written, as the target may have overwritten the ring.

A unit is possible if the session's instruments write units of its type, if its slot, call site
and stack are known, and if its time is within the session. Data is possible if each unit
continues the one before. Arguments and results of a call can have any value.
"""

from __future__ import annotations

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PAYLOAD = layout.UNIT - layout.DATA.offset("payload")
_AHEAD = 1 << 32  # ticks by which processors' counters may differ
_NO_TIME = 1 << 62
_NO_ADDR = 1 << 57
_NO_ID = 1 << 22  # more than any pid or tid
_FLAGS = layout.DATA_TRUNCATED | layout.DATA_UNREADABLE | layout.DATA_NULL
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
                    or (unit[1] & ~_FLAGS and not is_packed)
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
