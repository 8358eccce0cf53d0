# SPDX-License-Identifier: Apache-2.0
"""Shapes of calls: the DATA units that a call has, and so where its words and strings are.

Calls of one function mostly have the same shape, and one struct unpacks all of them. `captured`
decodes the same units in any form.
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
    RESULT,
    Fields,
    Unpacked,
)
from soscope.recording.captures import packed
from soscope.recording.units import KIND
from soscope.wire import layout
from soscope.wire.layout import DATA_MORE, DATA_PACKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.call import WholeCall

_KINDS = slice(KIND, None, layout.UNIT)
_ITEMS = slice(KIND - 1, None, layout.UNIT)  # the bytes that tell which item data belongs to
_HEAD = 8  # bytes of a DATA unit in front of its payload
_PAYLOAD = layout.UNIT - _HEAD
_LED_TO = (DATA_STRING, DATA_BYTES, DATA_WORD_AT)
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
        self._is_packed = data[KIND : KIND + 1] == _PACKED
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
            if kind in _LED_TO:
                items[item] = place, pieces
                form += f"H2xI{_PAYLOAD}s" + f"{_HEAD}x{_PAYLOAD}s" * (pieces - 1)
                place += 2 + pieces
                continue
            row = rows.get(kind)
            if items is fields.back or row is None or item != len(row) or length % 8:
                raise ValueError(f"data of kind {kind}")
            count = length // 8
            if not _PAYLOAD * (pieces - 1) < length <= _PAYLOAD * pieces:
                raise ValueError(f"{length} bytes in {pieces} units")
            self._lengths.append((place, length))
            row += range(place + 1, place + 1 + count)
            place += 1 + count
            form += "H6x"
            for piece in range(pieces):
                here = min(count - 3 * piece, 3)
                form += f"{_HEAD}x" if piece else ""
                form += f"{here}{_NUMBERS[kind]}{_PAYLOAD - 8 * here}x"
        return form, place


_PACKED = bytes([layout.UNIT_DATA << 4 | DATA_PACKED])
