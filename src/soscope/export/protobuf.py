# SPDX-License-Identifier: Apache-2.0
"""Fields of protobuf messages, as bytes: numbers, and everything with a length.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LENGTH_DELIMITED = 2  # a wire type
_NEGATIVE = 1 << 64  # a negative int64 is written as its two's complement


def varint(number: int) -> bytes:
    """Return a number as varint: seven bits a byte, lowest first."""
    if 0 <= number < 0x80:
        return bytes((number,))
    if number < 0:
        number += _NEGATIVE
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def integer(field: int, value: int) -> bytes:
    """Return a field of any integer type (except sint and fixed), bool or enum."""
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes) -> bytes:
    """Return a field of type bytes, or of a message type."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(len(value)) + value


def string(field: int, value: str) -> bytes:
    """Return a field of type string."""
    return message(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Return a repeated field of integers, b"" if there are none."""
    joined = b"".join([varint(value) for value in values])
    return message(field, joined) if joined else b""
