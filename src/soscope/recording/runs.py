# SPDX-License-Identifier: Apache-2.0
"""Runs of records with equally many units each, so that one struct unpacks all of them.

Consecutive calls of a program are mostly calls of one function, or of the same few.
"""

from __future__ import annotations

import struct

from soscope.recording.units import KIND
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WHOLE, ENTRY, OPEN, EXIT, DATA = b"w", b"e", b"o", b"x", b"d"
_BEGINS = (ENTRY, OPEN)
_LETTERS = {
    layout.UNIT_WHOLE: WHOLE,
    layout.UNIT_ENTRY: ENTRY,
    layout.UNIT_OPEN: OPEN,
    layout.UNIT_EXIT: EXIT,
    layout.UNIT_DATA: DATA,
}
_BY_BYTE = b"".join(_LETTERS.get(byte >> 4, b"-") for byte in range(256))
_AT_ONCE = 16  # records that are compared at once
_MOST = 1 << 10  # structs to keep
_structs: dict[tuple[int, int], struct.Struct] = {}


def letters_of(units: bytes) -> bytes:
    """Return a letter for each unit that tells its type."""
    return units[KIND :: layout.UNIT].translate(_BY_BYTE)


def run_at(letters: bytes, units: bytes, at: int) -> tuple[int, Iterator[tuple[Any, ...]]] | None:
    """Return the run of whole calls that begins with unit `at`, None if there is none.

    The result is the number of units of each call, and the words of each: those of a WHOLE unit
    with its data, or those of an entry with its data and then of its exit. All calls have equally
    many units of data.
    """
    behind = _behind_data(letters, at + 1)
    data = behind - at - 1
    back = -1
    if letters[at : at + 1] != WHOLE:
        if letters[at : at + 1] not in _BEGINS or letters[behind : behind + 1] != EXIT:
            return None
        first = behind + 1
        behind = _behind_data(letters, first)
        back = behind - first
    record = letters[at:behind]
    size = len(record)
    many, startswith = record * _AT_ONCE, letters.startswith
    while startswith(many, behind):
        behind += size * _AT_ONCE
    while startswith(record, behind):
        behind += size
    if letters[behind : behind + 1] == DATA:
        behind -= size  # the last record has more data
    run = memoryview(units)[at * layout.UNIT : behind * layout.UNIT]
    return size, _struct(data, back).iter_unpack(run)


def _behind_data(letters: bytes, at: int) -> int:
    while letters[at : at + 1] == DATA:
        at += 1
    return at


def _struct(data: int, back: int) -> struct.Struct:
    """Return a struct for a record with so many units of data. `back` -1 means no exit."""
    known = _structs.get((data, back))
    if known is None:
        form = f"<IIQQQ{data * layout.UNIT}s"
        if back >= 0:
            form += f"IIQQQ{back * layout.UNIT}s"
        if len(_structs) >= _MOST:
            _structs.clear()
        known = _structs[data, back] = struct.Struct(form)
    return known
