# SPDX-License-Identifier: Apache-2.0
"""Arrays of events, made from units. For single records see `units.records_of`.

OPEN and WHOLE units have been replaced by entries and exits before, by `wholes`.
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
