# SPDX-License-Identifier: Apache-2.0
"""Which units an agent can have written: the target may have written over those in the ring.

A unit can be if the session's instruments write units of its type, if its slot, its call site and
its stack are known, and if its time lies in the session. Data can be if each unit continues the
one before. What a call was given and what it returned can be anything.
"""

from __future__ import annotations

from _collections_abc import Iterable

from soscope.wire import layout

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Units = npt.NDArray[np.uint64]  # rows of four words
    Words = npt.NDArray[np.uint32]  # of `Units` two for each, or one of each unit

_UNITS = (layout.CHUNK_SIZE - layout.CHUNK_HEADER) // layout.UNIT  # of a chunk
_PAYLOAD = layout.UNIT - layout.DATA.offset("payload")
_AHEAD = 1 << 32  # ticks: processors' counters, and ours, differ by less
_NO_TIME = 1 << 62
_NO_ADDR = 1 << 57
_NO_ID = 1 << 22  # no pid and no tid is as much
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

_NONE_MAY_FOLLOW = -1  # data behind this is nobody's
_ANY_MAY_FOLLOW = -2  # data of a record that was never finished
_ITEM_MAY_FOLLOW = -3  # the first data of a record

# what a unit is, for many at once
_IS_NUMBERED, _IS_SLOT, _IS_OVERHEAD, _IS_REPORTED, _IS_BLOCK, _IS_NOTHING, _IS_DATA = (
    1 << bit for bit in range(7)
)
_IMPOSSIBLE = 1 << 7
_DATA = layout.UNIT_DATA << 4  # the highest byte of the commit word of data, without its kind

NOTHING = (layout.UNIT_NOTHING << 28).to_bytes(4, "little") + bytes(layout.UNIT - 4)


class Limits:
    """What there was in a session when some units were read.

    `slots`, `call_sites` and `stacks` are how many it had, `first` and `last` the times (tsc) of
    its beginning and of now. `has_clock`: each unit has a time.
    """

    __slots__ = ("call_sites", "first", "has_clock", "kinds", "last", "slots", "stacks")

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
        self.slots = slots
        self.call_sites = call_sites
        self.stacks = stacks
        self.first = max(first - _AHEAD, 0)
        self.last = now + _AHEAD if now else _NO_TIME
        self.has_clock = has_clock

    def has_time(self, tsc: int) -> bool:
        """Say whether anything can have been done at a time."""
        return self.first <= tsc <= self.last if tsc or self.has_clock else True

    def can_be_chunk(self, header: bytes, *, is_full: bool) -> bool:
        """Say whether an agent can have written the header of a chunk."""
        seq, tid, pid, tsc, tsc_full, flags, *reserved = layout.CHUNK.struct.unpack(header)
        if not seq or any(reserved) or flags & ~layout.CHUNK_BORROWED:
            return False
        if not (0 < tid < _NO_ID and 0 < pid < _NO_ID):
            return False
        if not self.has_clock:
            return True
        return self.has_time(tsc) and (not is_full or tsc <= tsc_full <= self.last)

    def _can_be(self, unit: tuple[int, ...]) -> bool:
        """Say whether an agent can have written a unit that is no data."""
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
        return kind == 0 or not low  # NOTHING

    def spoiled(self, units: bytes | memoryview) -> list[int]:
        """Return the numbers of units that no agent has written, of one piece of a chunk."""
        bad: list[int] = []
        more = _NONE_MAY_FOLLOW  # bytes of an item that are still to come, or one of these
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

    def are_sound(self, units: Units) -> bool:
        """Say whether an agent can have written all of many units: whole chunks, one by one.

        In doubt it says no, and `spoiled` knows better. `units` are rows of four words.
        """
        import numpy as np

        words = units.view(np.uint32)
        commit = words[:, 0].copy()
        tops = units.view(np.uint8)[:, 3].copy()  # types, and kinds of data
        groups = self._groups()[tops]
        there = int(np.bitwise_or.reduce(groups))
        if there & _IMPOSSIBLE:
            return False
        for group, is_sound in (
            (_IS_NUMBERED, self._are_numbered),
            (_IS_SLOT, self._are_slots),
            (_IS_OVERHEAD, self._are_overheads),
            (_IS_REPORTED, self._are_reported),
            (_IS_BLOCK, self._are_blocks),
        ):
            if there & group:
                which = np.flatnonzero(groups & group)
                if not is_sound(units[which], commit[which]):
                    return False
        if there & _IS_NOTHING and (commit[tops >> 4 == layout.UNIT_NOTHING] & _LOW).any():
            return False
        return not there & _IS_DATA or _is_data_sound(words, tops, groups)

    def have_types(self, chunks: bytes) -> bool:
        """Say whether all units of whole chunks are of types that there are: the quickest look."""
        import numpy as np

        units = np.frombuffer(chunks, np.uint8).reshape(
            -1, layout.CHUNK_SIZE // layout.UNIT, layout.UNIT
        )
        tops = units[:, layout.CHUNK_HEADER // layout.UNIT :, 3]
        return not int(np.bitwise_or.reduce(self._groups()[tops], axis=None)) & _IMPOSSIBLE

    def _groups(self) -> npt.NDArray[np.uint8]:
        """Return what each first byte of a unit, the highest of its commit word, says it is."""
        import numpy as np

        table = np.full(256, _IMPOSSIBLE, np.uint8)
        for kinds, group in (
            ((0,), 0),
            (_NUMBERED, _IS_NUMBERED),
            (_SLOTS, _IS_SLOT),
            ((layout.UNIT_OVERHEAD,), _IS_OVERHEAD),
            ((layout.UNIT_REPORTED,), _IS_REPORTED),
            (_BLOCKS, _IS_BLOCK),
            ((layout.UNIT_NOTHING,), _IS_NOTHING),
        ):
            for kind in self.kinds.intersection(kinds):
                table[kind << 4 : (kind + 1) << 4] = group
        if layout.UNIT_DATA in self.kinds:
            table[_DATA : _DATA + layout.DATA_PACKED + 1] = _IS_DATA
        return table

    def _have_times(self, units: Units) -> bool:
        import numpy as np

        # a time of 0 has none: then `spoiled` has to look
        since = units[:, 1] - np.uint64(self.first)
        return int(since.max()) <= self.last - self.first

    def _are_numbered(self, units: Units, commit: Words) -> bool:
        import numpy as np

        low = commit & np.uint32(_LOW)
        if low.max() >> layout.TICKS_LOW >= self.call_sites:
            return False
        ticks = units[:, 1] >> np.uint64(layout.START_BITS) << np.uint64(layout.TICKS_LOW)
        ticks |= low & np.uint32(_TICKS)
        ticks[ticks == layout.NO_TICKS] = 0
        ticks += units[:, 1] & np.uint64(_START)
        return int(ticks.max()) <= self.last - self.first

    def _are_slots(self, units: Units, commit: Words) -> bool:
        import numpy as np

        if int((commit & np.uint32(_LOW)).max()) >= self.slots or not self._have_times(units):
            return False
        rest = units[commit >> np.uint32(28) == layout.UNIT_EXIT, 3]
        return not (rest >> np.uint64(32)).any()

    def _are_overheads(self, units: Units, commit: Words) -> bool:
        is_bare = not (commit & _LOW).any() and not (units[:, 3].any())
        is_bare = is_bare and int(units[:, 0].max()) == layout.UNIT_OVERHEAD << 28
        return is_bare and int(units[:, 2].max()) <= self.last and self._have_times(units)

    def _are_reported(self, units: Units, commit: Words) -> bool:
        import numpy as np

        ticks = (commit & np.uint32(_LOW)).astype(np.uint64) >> np.uint64(layout.REPORTED_TICKS)
        ticks = ticks << np.uint64(32) | units[:, 0] >> np.uint64(32)
        return max(int(units[:, 1].max()), int(ticks.max())) <= self.last

    def _are_blocks(self, units: Units, commit: Words) -> bool:
        import numpy as np

        kind = commit >> np.uint32(28)
        if (commit[kind != layout.UNIT_BLOCK_OVER] & np.uint32(_LOW)).any():
            return False
        stack = (units[:, 0] >> np.uint64(32))[np.isin(kind, _BY_STACK)]
        return bool(
            self._have_times(units)
            and stack.max(initial=0) < self.stacks
            and units[:, 2].max() < _NO_ADDR
            and units[:, 3].max() < _NO_TIME
        )


def _is_data_sound(
    words: Words, tops: npt.NDArray[np.uint8], groups: npt.NDArray[np.uint8]
) -> bool:
    """Say whether each unit of data continues the one before it; no where an item is empty."""
    import numpy as np

    is_data = groups == _IS_DATA
    if is_data[::_UNITS].any():
        return False  # the first of a chunk
    is_plain = is_data & (tops != _DATA + layout.DATA_PACKED)
    if ((words[:, 1] > _FLAGS) & is_plain).any():
        return False
    if not (is_data | (groups & (_IS_NUMBERED | _IS_SLOT) != 0))[:-1][is_data[1:]].all():
        return False
    length = words.view(np.uint16)[:, 0].copy()
    is_more = tops == _DATA + layout.DATA_MORE
    expected = length * is_more
    length *= is_plain
    left = np.maximum(length, _PAYLOAD) - np.uint16(_PAYLOAD)
    is_empty = is_more & (length == 0)
    return bool((left[:-1] == expected[1:]).all()) and not left[-1] and not is_empty.any()


def without(units: bytes, bad: list[int]) -> bytes:
    """Return units with NOTHING in the place of some of them."""
    whole = bytearray(units)
    for number in bad:
        whole[number * layout.UNIT : (number + 1) * layout.UNIT] = NOTHING
    return bytes(whole)
