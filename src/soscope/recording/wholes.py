# SPDX-License-Identifier: Apache-2.0
"""Makes entries and exits from OPEN and WHOLE units by arrays.

`units.records_of` does the same one by one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.recording.arrays import SLOT, Units
from soscope.recording.names import RecordedProgram
from soscope.wire import layout

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
