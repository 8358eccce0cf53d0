# SPDX-License-Identifier: Apache-2.0
"""Decode pieces of chunks into records: an entry or exit with its DATA units.

The module defines the bits of a unit, the shapes of calls, and the layout of captured data.
"""

from __future__ import annotations

import struct

from soscope.model.call import (
    DATA_BYTES,
    DATA_FLOATS,
    DATA_STACK,
    DATA_STRING,
    DATA_WORD_AT,
    DATA_WORDS,
    NOTHING,
    RESULT,
    Captured,
    Fields,
    Unpacked,
)
from soscope.wire import layout
from soscope.wire.layout import DATA_MORE, DATA_PACKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeVar

    from soscope.model.call import WholeCall
    from soscope.recording.names import RecordedProgram

    _Number = TypeVar("_Number", int, float)


# Decodes the data that the agent captured of a call: DATA units behind its entry or exit.

_UNITS = struct.Struct("<II24s")
_LED_TO = frozenset((DATA_STRING, DATA_BYTES, DATA_WORD_AT))
_PACKED = struct.Struct("<hHIIhIhIhIh")
_KIND = 3  # index of the byte of a unit whose lower half is the kind of its data
_WORD = (1 << 64) - 1
_PAYLOAD = layout.DATA.offset("payload")
_PAYLOAD_SIZE = layout.UNIT - _PAYLOAD


def captured(first: tuple[int, ...], units: bytes) -> Captured:
    """Return the data in `units` (DATA units of 32 bytes each).

    `first` has the integer registers that the entry itself holds. Registers and stack words are
    returned up to the first one that is missing.
    """
    if not units:
        return Captured(first) if first else NOTHING
    if len(first) == 1 and _is_packed(units):  # most calls have no more
        return Captured(first + packed(units))
    words = first
    stack: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    data: dict[int, tuple[int, int, bytes]] = {}
    if len(units) % layout.UNIT:
        return _scattered(first, units)
    each = _UNITS.iter_unpack(units)
    for commit, flags, content in each:
        kind, length = commit >> 24 & 15, commit & 0xFFFF
        if kind == DATA_PACKED and len(words) == 1:  # packed words have no length
            words += packed(_UNITS.pack(commit, flags, content))
            continue
        if length > _PAYLOAD_SIZE:
            pieces = [content]
            for more, _, piece in each:
                if more >> 24 & 15 != DATA_MORE:
                    return _scattered(first, units)
                pieces.append(piece)
                if len(pieces) * _PAYLOAD_SIZE >= length:
                    break
            content = b"".join(pieces)  # noqa: PLW2901  on every call's path
        content = content[:length]  # noqa: PLW2901  as above
        if kind in _LED_TO:
            data[commit >> 16 & 255] = kind, flags, content
        elif kind == DATA_WORDS and commit >> 16 & 255 == len(words):
            words += struct.unpack_from(f"<{len(content) >> 3}Q", content)
        elif kind == DATA_FLOATS and commit >> 16 & 255 == len(floats):
            floats += struct.unpack_from(f"<{len(content) >> 3}d", content)
        elif kind == DATA_STACK and commit >> 16 & 255 == len(stack):
            stack += struct.unpack_from(f"<{len(content) >> 3}Q", content)
        else:
            return _scattered(first, units)
    return Captured(words, stack, floats, data)


def _scattered(first: tuple[int, ...], units: bytes) -> Captured:
    """Return the same as `captured`, for units in any order."""
    words: dict[int, int] = dict(enumerate(first))
    stack: dict[int, int] = {}
    floats: dict[int, float] = {}
    data: dict[int, tuple[int, int, bytes]] = {}
    at = 0
    while at < len(units):
        commit, flags = struct.unpack_from("<II", units, at)
        if commit >> 24 & 15 == DATA_PACKED:
            words.update(enumerate(packed(units[at : at + layout.UNIT]), 1))
            at += layout.UNIT
            continue
        kind, item, length = commit >> 24 & 15, commit >> 16 & 255, commit & 0xFFFF
        pieces = [units[at + _PAYLOAD : at + _PAYLOAD + min(length, _PAYLOAD_SIZE)]]
        at += layout.UNIT
        rest = length - _PAYLOAD_SIZE
        while rest > 0 and at < len(units):
            more = int.from_bytes(units[at : at + 4], "little")
            if more >> 24 & 15 != DATA_MORE:
                break
            pieces.append(units[at + _PAYLOAD : at + _PAYLOAD + min(rest, _PAYLOAD_SIZE)])
            rest -= _PAYLOAD_SIZE
            at += layout.UNIT
        content = b"".join(pieces)
        count = len(content) // 8
        if kind == DATA_WORDS:
            words.update(enumerate(struct.unpack_from(f"<{count}Q", content), item))
        elif kind == DATA_STACK:
            stack.update(enumerate(struct.unpack_from(f"<{count}Q", content), item))
        elif kind == DATA_FLOATS:
            floats.update(enumerate(struct.unpack_from(f"<{count}d", content), item))
        elif kind != DATA_MORE:
            data[item] = kind, flags, content
    return Captured(_in_a_row(words), _in_a_row(stack), _in_a_row(floats), data)


def _is_packed(units: bytes) -> bool:
    return len(units) == layout.UNIT and units[_KIND] & 15 == DATA_PACKED


def packed(unit: bytes) -> tuple[int, ...]:
    """Return the five words of a DATA_PACKED unit: signed numbers of 48 bits."""
    # The last word comes first, with its lower half behind its upper one.
    high5, _, low5, low1, high1, low2, high2, low3, high3, low4, high4 = _PACKED.unpack(unit)
    return (
        (low1 | high1 << 32) & _WORD,
        (low2 | high2 << 32) & _WORD,
        (low3 | high3 << 32) & _WORD,
        (low4 | high4 << 32) & _WORD,
        (low5 | high5 << 32) & _WORD,
    )


def _in_a_row(values: dict[int, _Number]) -> tuple[_Number, ...]:
    """Return the values for 0, 1, 2 … up to the first one that is missing."""
    row: list[_Number] = []
    while len(row) in values:
        row.append(values[len(row)])
    return tuple(row)


UNIT = struct.Struct("<IIQQQ")
KIND = 3  # index of the byte of a unit whose upper half is its type
TICKS_LOW = (1 << layout.TICKS_LOW) - 1
NUMBER = layout.MAX_CALL_SITES - 1
START = (1 << layout.START_BITS) - 1
_ENTRIES = (layout.UNIT_ENTRY, layout.UNIT_ENTRY_ONLY, layout.UNIT_OPEN, layout.UNIT_WHOLE)
_NO_ENTRIES = bytes(kind for kind in range(256) if kind >> 4 not in _ENTRIES)


class Piece:
    """Units of one chunk, from number `first` on.

    The other fields are from the chunk's header: who wrote it, when it was given out (`tsc`) and
    given back (`tsc_full`, 0 before), and `flags`, CHUNK_ constants of `layout`.
    """

    __slots__ = ("first", "flags", "pid", "program", "seq", "tid", "tsc", "tsc_full", "units")

    def __init__(self, program: int, header: bytes, first: int, units: bytes) -> None:
        fields = layout.CHUNK.struct.unpack(header)
        self.seq, self.tid, self.pid, self.tsc, self.tsc_full, self.flags = fields[:6]
        self.program = program
        self.first = first
        self.units = units


def pieces_of(program: int, data: bytes | memoryview) -> Iterator[Piece]:
    """Cut whole chunks into pieces."""
    size, head = layout.CHUNK_SIZE, layout.CHUNK_HEADER
    for at in range(0, len(data) - size + 1, size):
        chunk = bytes(data[at : at + size])
        yield Piece(program, chunk[:head], 0, chunk[head:])


def records_of(
    units: bytes, program: RecordedProgram
) -> Iterator[tuple[int, tuple[int, ...], bytes]]:
    """Yield (unit type, the unit as five words, its DATA units).

    The words are commit, sp, tsc and two more: return address and first argument, or result and
    errno, or the ticks of an overhead. Unfinished units are left out, with the data behind them.
    OPEN units are yielded as ENTRY, and WHOLE ones as ENTRY and EXIT, by the call sites of
    `program`.
    """
    at = 0
    while at < len(units):
        kind, record, back, end = record_at(units, at, program)
        if kind:
            yield kind, record, units[at + layout.UNIT : end]
            if back:
                yield layout.UNIT_EXIT, back, b""
        at = end


def record_at(
    units: bytes, at: int, program: RecordedProgram
) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """Return (type, words, words of its exit, end) of the record at `at`.

    The exit is set for a WHOLE unit, else (). The type is 0 for unknown types, for an unfinished
    unit, and for data before all records, which belongs to no record.
    """
    unit = UNIT.unpack_from(units, at)
    end = at + layout.UNIT
    while end < len(units) and units[end + KIND] >> 4 == layout.UNIT_DATA:
        end += layout.UNIT
    kind = unit[0] >> 28
    if kind == layout.UNIT_WHOLE:
        record, back = both_of(unit, program)
        return layout.UNIT_ENTRY, record, back, end
    if kind == layout.UNIT_OPEN:
        return layout.UNIT_ENTRY, both_of(unit, program)[0], (), end
    known = kind <= layout.UNIT_OVERHEAD and kind != layout.UNIT_DATA
    return kind if known else 0, unit, (), end


def entries_in(units: bytes) -> int:
    """Return how many calls begin in `units`."""
    return len(units[KIND :: layout.UNIT].translate(None, _NO_ENTRIES))


def latest_of(units: bytes, program: RecordedProgram) -> int:
    """Return the latest time (tsc) of all entries and exits in `units`, 0 if there are none."""
    latest, origin = 0, program.tsc_start
    whole, opened, last = layout.UNIT_WHOLE, layout.UNIT_OPEN, layout.UNIT_EXIT
    for commit, _, time, _, _ in UNIT.iter_unpack(units):
        kind = commit >> 28
        tsc = time
        if kind == whole:
            tsc = origin + (time & START) & _WORD
            ticks = commit & TICKS_LOW | time >> layout.START_BITS << layout.TICKS_LOW
            if ticks != layout.NO_TICKS:
                tsc = max(tsc, tsc + ticks & _WORD)
        elif kind == opened:
            tsc = origin + (time & START) & _WORD
        elif not 0 < kind <= last:
            continue
        latest = max(latest, tsc)
    return latest


def both_of(
    unit: tuple[int, ...], program: RecordedProgram
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the words of the ENTRY and of the EXIT that a WHOLE unit stands for."""
    commit, sp, times, result, arg0 = unit
    slot, return_addr = program.call_site(commit >> layout.TICKS_LOW & NUMBER)
    start = program.tsc_start + (times & START) & _WORD
    ticks = commit & TICKS_LOW | times >> layout.START_BITS << layout.TICKS_LOW
    end = 0 if ticks == layout.NO_TICKS else start + ticks & _WORD
    return (
        (layout.UNIT_ENTRY << 28 | slot, sp, start, return_addr, arg0),
        (layout.UNIT_EXIT << 28 | slot, sp, end, result, 0),
    )


def exit_of(unit: bytes, program: RecordedProgram) -> bytes:
    """Return the EXIT unit for a WHOLE one that was handed over before as OPEN."""
    _, back = both_of(UNIT.unpack(unit), program)
    return UNIT.pack(*back)


# Runs of records with equally many units each, so that one struct unpacks all of them.
#
# Consecutive calls of a program are mostly calls of one function, or of the same few.

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

    The result is the number of units of each call, and the words of each call. These are the words
    of a WHOLE unit and its data, or of an entry, its data and its exit. All calls have equally many
    units of data.
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


# Shapes of calls: the DATA units that a call has, and so where its words and strings are.
#
# Calls of one function mostly have the same shape, and one struct unpacks all of them. `captured`
# decodes the same units in any form.

_KINDS = slice(KIND, None, layout.UNIT)
_ITEMS = slice(KIND - 1, None, layout.UNIT)  # the bytes that tell which item data belongs to
_HEAD = 8  # bytes of a DATA unit in front of its payload
_PAYLOAD_BYTES = layout.UNIT - _HEAD
_LED_TO_SHAPES = (DATA_STRING, DATA_BYTES, DATA_WORD_AT)
_NUMBERS = {DATA_WORDS: "Q", DATA_STACK: "Q", DATA_FLOATS: "d"}


def keys_of(calls: list[WholeCall]) -> list[object]:
    """Return a key for each of `calls`, which is equal for calls of one slot and one shape."""
    return [
        (slot, data[_KINDS], data[_ITEMS], back[_KINDS], back[_ITEMS])
        for _, _, slot, _, _, data, _, back in calls
    ]


def key_of(data: bytes, back: bytes) -> bytes | tuple[bytes, bytes]:
    """Return a key that is equal for calls of one shape. `data` and `back` are DATA units."""
    key = data[_KINDS] + data[_ITEMS]
    return (key, back[_KINDS] + back[_ITEMS]) if back else key


class Shape:
    """One shape of calls. `fields` tells where their words and strings are."""

    __slots__ = ("_is_packed", "_lengths", "_unpack", "_unpack_back", "fields")

    def __init__(self, data: bytes, back: bytes) -> None:
        """Find the shape of a call. Raises ValueError if its units have no simple shape."""
        self.fields = fields = Fields()
        self._lengths: list[tuple[int, int]] = []  # places of lengths that must be equal
        self._is_packed = data[KIND : KIND + 1] == _PACKED_SHAPES
        at, begun = RESULT + 1, ""
        if self._is_packed:
            fields.words += range(at, at + 5)
            at += 5
            begun = f"{layout.UNIT}x"
        form, at = self._form(data, len(begun) and layout.UNIT, at, fields.data)
        self._unpack = struct.Struct(f"<{begun}{form}").unpack
        form, at = self._form(back, 0, at, fields.back)
        self._unpack_back = struct.Struct(f"<{form}").unpack

    def unpack(self, arg0: int, result: int, data: bytes, back: bytes) -> Unpacked | None:
        """Return the fields of a call, None if it has another number of words than the first."""
        if self._is_packed:
            words = packed(data[: layout.UNIT])
            fields = (arg0, result, *words, *self._unpack(data), *self._unpack_back(back))
        else:
            fields = (arg0, result, *self._unpack(data), *self._unpack_back(back))
        for place, length in self._lengths:
            if fields[place] != length:
                return None
        return fields

    def unpack_many(self, calls: list[WholeCall], *, with_back: bool) -> list[Unpacked] | None:
        """Return the fields of calls of this shape, None if one has other lengths of words.

        Without `with_back`, data that was captured at exits is left out, as the shape does not
        cover it.
        """
        if self._is_packed:
            rows = []
            for _, _, _, arg0, result, data, _, back in calls:
                fields = self.unpack(arg0, result, data, back if with_back else b"")
                if fields is None:
                    return None
                rows.append(fields)
            return rows
        unpack, behind = self._unpack, self._unpack_back
        made: list[Unpacked]
        if with_back:
            made = [
                (arg0, result, *unpack(data), *behind(back))
                for _, _, _, arg0, result, data, _, back in calls
            ]
        else:
            made = [(arg0, result, *unpack(data)) for _, _, _, arg0, result, data, _, _ in calls]
        for place, length in self._lengths:
            if [fields[place] for fields in made].count(length) < len(made):
                return None
        return made

    def _form(
        self, units: bytes, begin: int, place: int, items: dict[int, tuple[int, int]]
    ) -> tuple[str, int]:
        """Return the format of units behind `begin`, and the place behind their fields."""
        form = ""
        fields = self.fields
        rows = {DATA_WORDS: fields.words, DATA_STACK: fields.stack, DATA_FLOATS: fields.floats}
        at = begin
        while at < len(units):
            commit = int.from_bytes(units[at : at + 4], "little")
            kind, item, length = commit >> 24 & 15, commit >> 16 & 255, commit & 0xFFFF
            at += layout.UNIT
            pieces = 1
            while at < len(units) and units[at + KIND] & 15 == DATA_MORE:
                at += layout.UNIT
                pieces += 1
            if kind in _LED_TO_SHAPES:
                items[item] = place, pieces
                form += f"H2xI{_PAYLOAD_BYTES}s" + f"{_HEAD}x{_PAYLOAD_BYTES}s" * (pieces - 1)
                place += 2 + pieces
                continue
            row = rows.get(kind)
            if items is fields.back or row is None or item != len(row) or length % 8:
                raise ValueError(f"data of kind {kind}")
            count = length // 8
            if not _PAYLOAD_BYTES * (pieces - 1) < length <= _PAYLOAD_BYTES * pieces:
                raise ValueError(f"{length} bytes in {pieces} units")
            self._lengths.append((place, length))
            row += range(place + 1, place + 1 + count)
            place += 1 + count
            form += "H6x"
            for piece in range(pieces):
                here = min(count - 3 * piece, 3)
                form += f"{_HEAD}x" if piece else ""
                form += f"{here}{_NUMBERS[kind]}{_PAYLOAD_BYTES - 8 * here}x"
        return form, place


_PACKED_SHAPES = bytes([layout.UNIT_DATA << 4 | DATA_PACKED])
