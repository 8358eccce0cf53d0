# SPDX-License-Identifier: Apache-2.0
"""Convert units to arrays of events: entries, exits, and time that the agent took.

Only this module decodes units with numpy. The stream decodes them with `units.records_of`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.model.call import DATA_BYTES, STACK_ITEM
from soscope.recording.names import RecordedProgram
from soscope.wire import layout

Integers = npt.NDArray[np.signedinteger[Any]]
Booleans = npt.NDArray[np.bool_]
Units = npt.NDArray[np.uint64]  # rows of four words
Words = npt.NDArray[np.uint64]

SLOT = 0xFFF_FFFF  # the bits of a commit word that are the slot
_UNIT = np.dtype([("commit", "<u4"), ("sp", "<u4"), ("tsc", "<u8"), ("a", "<u8"), ("b", "<u8")])
_HEADER_UNITS = layout.CHUNK_HEADER // layout.UNIT
_CHUNK_UNITS = layout.CHUNK_SIZE // layout.UNIT
UNITS = _CHUNK_UNITS - _HEADER_UNITS  # units of a chunk
# Types of units whose second word is no time.
_NO_TIME = (layout.UNIT_DATA, layout.UNIT_NOTHING, 0)
# The upper half of the commit word of a data unit that begins with a stack's number.
_STACK = layout.UNIT_DATA << 12 | DATA_BYTES << 8 | STACK_ITEM
_CALLS = layout.UNIT_EXIT - layout.UNIT_ENTRY + 1  # number of unit types that are events


def units_of(data: bytes) -> Units:
    """Return units as an array: a row of four words each."""
    return np.frombuffer(data, "<u8").reshape(-1, layout.UNIT // 8)


def units_of_chunks(data: bytes | memoryview) -> Units:
    """Return the units of whole chunks, `UNITS` of each."""
    chunks = np.frombuffer(data, "<u8").reshape(-1, _CHUNK_UNITS, layout.UNIT // 8)
    return chunks[:, _HEADER_UNITS:].reshape(-1, layout.UNIT // 8)


def begun(unit: npt.NDArray[np.uint64]) -> int:
    """Return the time of a unit, or 0 if its type has none."""
    return 0 if int(unit[0]) >> 28 & 15 in _NO_TIME else int(unit[1])


def joined(pieces: list[Units]) -> Units:
    """Return the units of several pieces, one behind the other."""
    return np.concatenate(pieces) if pieces else units_of(b"")


class Events:
    """The entries and exits among some units, in their order.

    The arrays have an element for each event: `commit` (unit type << 28 | slot), `sp`, `tsc`, and
    `at`, the index of its unit. `overhead` is (tsc, ticks) of the time that the agent took.
    """

    __slots__ = ("_units", "at", "commit", "overhead", "sp", "tsc")

    def __init__(self, words: Units) -> None:
        units = words.view(_UNIT).reshape(-1)
        commit = np.ascontiguousarray(units["commit"])
        kind = commit >> 28
        self._units = units
        # Units that were never finished have type 0.
        self.at: Integers = np.flatnonzero((kind - layout.UNIT_ENTRY) < _CALLS)
        took = units[np.flatnonzero(kind == layout.UNIT_OVERHEAD)]
        self.overhead = took["tsc"].astype(np.int64), took["a"].astype(np.int64)
        self.commit: npt.NDArray[np.uint32] = commit[self.at]
        self.sp: npt.NDArray[np.uint32] = units["sp"][self.at]
        self.tsc: npt.NDArray[np.int64] = units["tsc"][self.at].view(np.int64)

    def __len__(self) -> int:
        return len(self.at)

    def keep(self, chosen: slice | Booleans) -> None:
        """Keep only the chosen events."""
        for name in ("at", "commit", "sp", "tsc"):
            setattr(self, name, getattr(self, name)[chosen])

    def some(self, which: Integers) -> Events:
        """Return the chosen events as a new object."""
        chosen = object.__new__(Events)
        chosen._units, chosen.overhead = self._units, self.overhead
        for name in ("at", "commit", "sp", "tsc"):
            setattr(chosen, name, getattr(self, name)[which])
        return chosen

    def kind(self) -> npt.NDArray[np.uint32]:
        """Return the unit type of each event."""
        return np.asarray(self.commit >> 28, np.uint32)

    def slot(self) -> npt.NDArray[np.int64]:
        """Return the slot of each event."""
        return (self.commit & SLOT).astype(np.int64)

    def first(self, which: Any) -> Words:
        """Return the return addresses of some entries, or the results of some exits."""
        return np.asarray(self._units["a"][self.at[which]], np.uint64)

    def second(self, which: Any) -> Words:
        """Return the first arguments of some entries, or errno of some exits in the low half."""
        return np.asarray(self._units["b"][self.at[which]], np.uint64)

    def stacks(self, starts: Integers) -> npt.NDArray[np.uint32]:
        """Return the number of each event's stack, 0 if it has none.

        Pieces begin at the units `starts`. Data before all records of a piece belongs to no
        record.
        """
        numbers = np.zeros(len(self), np.uint32)
        commit = self._units["commit"]
        data = np.flatnonzero(commit >> 16 == _STACK)
        if len(data) and len(self):
            records = commit >> 28 != layout.UNIT_DATA
            records[starts[starts < len(records)]] = True
            owners = np.maximum.accumulate(np.where(records, np.arange(len(records)), 0))[data]
            events = np.minimum(np.searchsorted(self.at, owners), len(self) - 1)
            known = self.at[events] == owners
            low = self._units["tsc"][data[known]] & np.uint64(0xFFFF_FFFF)
            numbers[events[known]] = low.astype(np.uint32)
        return numbers


class SlotArrays:
    """Properties of the slots of one program, as arrays by number."""

    def __init__(self, program: RecordedProgram) -> None:
        count = program.slot_count
        self.knows_errno = program.knows_errno
        self.sites = program.sites
        # One element more, for unknown numbers.
        self._rules = np.zeros(count + 1, np.uint8)
        self._twice = np.zeros(count + 1, np.bool_)
        for slot in range(count):
            self._rules[slot] = program.slot(slot).error_rule
            self._twice[slot] = program.returns_twice(slot)
        self.has_twice = bool(self._twice.any())
        self.has_rules = bool(self._rules.any())

    def error_rule(self, slot: Integers) -> npt.NDArray[np.uint8]:
        """Return the error rule of each of some slots."""
        return self._rules[np.minimum(slot, len(self._rules) - 1)]

    def twice(self, slot: Integers) -> Booleans:
        """Return for each slot whether its function may return several times."""
        return self._twice[np.minimum(slot, len(self._twice) - 1)]


# The time that the agent took in one thread, for arrays of times: see `overhead`.

_MANY = 1 << 12


class ThreadSpans:
    """Spans of one thread, by the tsc at which they began."""

    __slots__ = ("_begun", "_most", "_ticks", "_upto")

    def __init__(self) -> None:
        self._begun: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._ticks: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._upto: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._most = _MANY

    def add(self, tsc: Integers, ticks: Integers) -> None:
        """Add spans of so many ticks that began at `tsc`."""
        begun = np.concatenate((self._begun, tsc))
        ticks = np.concatenate((self._ticks, ticks))
        order = np.argsort(begun, kind="stable")
        self._set(begun[order], ticks[order])

    def _set(self, begun: npt.NDArray[np.int64], ticks: npt.NDArray[np.int64]) -> None:
        self._begun, self._ticks = begun, ticks
        self._upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(ticks)))

    def before(self, tsc: Integers) -> Integers:
        """Return the ticks of all spans that began before each time."""
        return self._upto[np.searchsorted(self._begun, tsc, side="left")]

    def before_each(self, tsc: Integers) -> Integers | None:
        """Return the result of `before`, faster, for times in rising order.

        Return None if no spans are among the times.
        """
        low, high = np.searchsorted(self._begun, (tsc[0], tsc[-1]), side="left").tolist()
        if low == high:
            return None
        begun, ticks = self._begun[low:high], self._ticks[low:high]
        steps = np.zeros(len(tsc), np.int64)
        np.add.at(steps, np.searchsorted(tsc, begun, side="right"), ticks)
        return np.cumsum(steps)

    @property
    def are_many(self) -> bool:
        """Return whether there are enough spans to `fold` them."""
        return len(self._begun) > self._most

    def fold(self, times: list[int], now: int) -> None:
        """Simplify spans, as all further queries are about `times` or about `now` and later.

        Spans that no query can tell apart are joined.
        """
        old = int(np.searchsorted(self._begun, now))
        which = np.searchsorted(np.array(sorted(times), np.int64), self._begun, side="right")
        first = np.flatnonzero((np.diff(which, prepend=-1) > 0) | (np.arange(len(which)) >= old))
        self._set(self._begun[first], np.add.reduceat(self._ticks, first))
        self._most = max(_MANY, 2 * len(first))


# Makes entries and exits from OPEN and WHOLE units by arrays.
#
# `units.records_of` does the same one by one.

_NUMBER = layout.MAX_CALL_SITES - 1
_WORDS = layout.UNIT // 8
_SITE_SLOT = np.uint64((1 << layout.CALL_SITE_SLOT) - 1)
_LOW = np.uint64(0xFFFF_FFFF)
_START = np.uint64((1 << layout.START_BITS) - 1)
_ENTRY = np.uint64(layout.UNIT_ENTRY << 28)
_EXIT = np.uint64(layout.UNIT_EXIT << 28)


class Wholes:
    """The call sites of one program."""

    __slots__ = ("_addrs", "_program", "_read", "_slots")

    def __init__(self, program: RecordedProgram) -> None:
        self._program = program
        self._read = -1  # bytes of its table that were read
        self._slots: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._addrs = self._slots

    def _update(self) -> None:
        table = self._program.call_sites
        if len(table) == self._read:
            return
        self._read = len(table)
        words = np.frombuffer(bytes(table), "<u8")
        # One element more, for unknown numbers.
        self._slots = np.full(len(words) + 1, SLOT, np.uint64)
        self._addrs = np.zeros(len(words) + 1, np.uint64)
        ready = np.flatnonzero(words)
        slots = (words[ready] & _SITE_SLOT) - np.uint64(1)
        self._slots[ready] = slots & np.uint64(SLOT)
        self._addrs[ready] = words[ready] >> np.uint64(layout.CALL_SITE_SLOT)

    def expanded(self, units: Units, each: int) -> list[Units]:
        """Return pieces of `each` units with an ENTRY for each OPEN and WHOLE unit.

        For each WHOLE unit there is also an EXIT, behind the data of its entry.
        """
        commit = np.ascontiguousarray(units).view("<u4")[:, 0]
        kind = commit >> 28
        known = np.flatnonzero((kind - layout.UNIT_OPEN) < 2)
        if not len(known):
            return [units[at : at + each] for at in range(0, len(units), each)]
        self._update()
        is_whole = kind[known] == layout.UNIT_WHOLE
        whole = known[is_whole]
        place = np.arange(len(units))
        starts = np.arange(0, len(units), each)
        behind = whole + 1
        if (kind == layout.UNIT_DATA).any():
            kind[starts] = 0  # data before all records of a piece belongs to none
            others = np.append(np.flatnonzero(kind != layout.UNIT_DATA), len(units))
            behind = others[np.searchsorted(others, behind)]
        place += np.cumsum(np.bincount(behind, minlength=len(units) + 1))[: len(units)]
        both = np.empty((len(units) + len(whole), _WORDS), np.uint64)
        both[place] = units

        number = commit[known] >> np.uint32(layout.TICKS_LOW) & np.uint32(_NUMBER)
        np.minimum(number, len(self._slots) - 1, out=number)
        times = units[known, 1]
        start = (times & _START) + np.uint64(self._program.tsc_start)
        named = (units[known, 0] & ~_LOW) | self._slots[number]  # words of sp and slot
        at = place[known]
        both[at, 0] = named | _ENTRY
        both[at, 1] = start
        both[at, 2] = self._addrs[number]

        ticks = (commit[whole] & np.uint32((1 << layout.TICKS_LOW) - 1)).astype(np.uint64)
        ticks |= times[is_whole] >> np.uint64(layout.START_BITS) << np.uint64(layout.TICKS_LOW)
        at = behind + np.arange(len(whole))
        both[at, 0] = named[is_whole] | _EXIT
        both[at, 1] = np.where(ticks == layout.NO_TICKS, np.uint64(0), start[is_whole] + ticks)
        both[at, 2] = units[whole, 2]
        both[at, 3] = 0
        return np.split(both, place[starts[1:]])
