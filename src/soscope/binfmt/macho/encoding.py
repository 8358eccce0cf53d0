# SPDX-License-Identifier: Apache-2.0
"""How one Mach-O image stores numbers, and how to read them without trusting them."""

from __future__ import annotations

from functools import cache
from struct import Struct

DECODING = ("utf-8", "surrogateescape")


class MachoEncoding:
    """The struct formats of one Mach-O width and byte order.

    `bits` is 32 or 64, `order` is "<" or ">". `word` is one pointer; `size` its size in bytes.
    """

    __slots__ = ("bits", "header", "order", "section", "segment", "size", "symbol", "u32", "word")

    def __init__(self, bits: int, order: str) -> None:
        self.bits = bits
        self.order = order
        self.size = bits // 8
        self.u32 = Struct(order + "I")
        if bits == 64:
            self.word = Struct(order + "Q")
            self.header = Struct(order + "IIIIIII4x")
            self.segment = Struct(order + "8x16sQQQQiiII")
            self.section = Struct(order + "16s16sQQIIIIIII4x")
            self.symbol = Struct(order + "IBBHQ")
        else:
            self.word = Struct(order + "I")
            self.header = Struct(order + "IIIIIII")
            self.segment = Struct(order + "8x16sIIIIiiII")
            self.section = Struct(order + "16s16sIIIIIIIII")
            self.symbol = Struct(order + "IBBHI")


@cache
def encoding(bits: int, order: str) -> MachoEncoding:
    """Return the encoding for `bits` (32, 64) and `order` ("<", ">")."""
    return MachoEncoding(bits, order)


def text(data: bytes, at: int = 0) -> str:
    """Return the string in `data` from `at` to its zero byte, or to the end of `data`."""
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode(*DECODING)


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return the ULEB128 number at `at`, at most 64 bits, and the position behind it.

    Raises IndexError if `data` ends within it.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        if shift < 64:
            value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def sleb(data: bytes, at: int) -> tuple[int, int]:
    """Return the SLEB128 number at `at`, and the position behind it.

    Raises IndexError if `data` ends within it.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        if shift < 64:
            value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if byte & 0x40 and shift < 64:
                value -= 1 << shift
            value &= 0xFFFFFFFFFFFFFFFF
            return value - (1 << 64) if value >> 63 else value, at
