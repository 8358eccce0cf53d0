# SPDX-License-Identifier: Apache-2.0
"""Decodes the data that the agent captured of a call: DATA units behind its entry or exit."""

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
    Captured,
)
from soscope.wire import layout
from soscope.wire.layout import DATA_MORE, DATA_PACKED

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import TypeVar

    _Number = TypeVar("_Number", int, float)

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
