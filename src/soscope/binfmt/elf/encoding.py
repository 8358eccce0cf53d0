# SPDX-License-Identifier: Apache-2.0
"""How one ELF file stores numbers: 32 or 64 bits, little or big end first."""

from __future__ import annotations

from struct import Struct


class Encoding:
    """The struct formats of one ELF class and byte order.

    `bits` is 32 or 64, `order` is "<" or ">". `word` is one address-sized integer.
    """

    __slots__ = (
        "bits",
        "dynamic",
        "half",
        "header",
        "order",
        "rel",
        "rela",
        "section",
        "segment",
        "symbol",
        "u32",
        "word",
    )

    def __init__(self, bits: int, order: str) -> None:
        self.bits = bits
        self.order = order
        self.half = Struct(order + "H")
        self.u32 = Struct(order + "I")
        if bits == 64:
            self.word = Struct(order + "Q")
            self.header = Struct(order + "16xHHIQQQIHHHHHH")
            self.segment = Struct(order + "IIQQQQQQ")
            self.section = Struct(order + "IIQQQQIIQQ")
            self.dynamic = Struct(order + "qQ")
            self.symbol = Struct(order + "IBBHQQ")
            self.rel = Struct(order + "QQ")
            self.rela = Struct(order + "QQq")
        else:
            self.word = Struct(order + "I")
            self.header = Struct(order + "16xHHIIIIIHHHHHH")
            self.segment = Struct(order + "IIIIIIII")
            self.section = Struct(order + "IIIIIIIIII")
            self.dynamic = Struct(order + "iI")
            self.symbol = Struct(order + "IIIBBH")
            self.rel = Struct(order + "II")
            self.rela = Struct(order + "IIi")


_KNOWN: dict[tuple[int, str], Encoding] = {}  # functools.cache is slow to import


def encoding(bits: int, order: str) -> Encoding:
    """Return the encoding for `bits` (32, 64) and `order` ("<", ">")."""
    known = _KNOWN.get((bits, order))
    if known is None:
        known = _KNOWN[bits, order] = Encoding(bits, order)
    return known
