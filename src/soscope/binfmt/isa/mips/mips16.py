# SPDX-License-Identifier: Apache-2.0
"""Stubs on MIPS in its shorter encodings, MIPS16 and microMIPS (GNU ld, elfxx-mips.c).

The lowest bit of a code address tells that the code has such an encoding. Addresses here are
without that bit.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from soscope.binfmt.isa.mips import slots as mipsgot
from soscope.binfmt.stubs.table import Code, FoundStub, SlotTable
from soscope.binfmt.stubs.words import signed
from soscope.model.filemap import MIPS_STUB, PLT

# microMIPS: lw $t9, -0x7ff0($gp); move $t7, $ra; [lui $t8, high;] jalr $t9;
# li $t8, low or ori $t8, $t8, low
_STUB = re.compile(
    rb"(?=(\xff\x3c\x80\x10(?:\x0d\xff|\0\x1f\x7a\x90)(?:\x41\xb8(?P<high>..))?"
    rb"(?:\x45\xd9|\x03\xf9\x0f\x3c)(?:(?P<alone>[\x33\x53]\0)|\x53\x18)(?P<low>..)))",
    re.DOTALL,
)
# addiu $v0, $pc, distance; lw $t9, 0($v0); jr $t9; move $t8, $v0
_BESIDE = re.compile(rb"(?=\x79([\0-\x7f]..)\xff\x22\0\0\x45\x99\x0f\x02)", re.DOTALL)
# lui $t7, high; lw $t9, low($t7); jr $t9; addiu $t8, $t7, low
_ABSOLUTE = re.compile(
    rb"(?=\x41\xaf(?P<high>..)\xff\x2f(?P<low>..)\0\x19\x0f\x3c\x33\x0f(?P=low))", re.DOTALL
)
# MIPS16: lw $v0, slot; lw $v1, 0($v0); move $t8, $v0; jr $v1; move $t9, $v1; nop; .word slot
_MIPS16 = re.compile(rb"(?=\xb2\x03\x9a\x60\x65\x1a\xeb\0\x65\x3b\x65\0(....))", re.DOTALL)
_MASK = 0xFFFF_FFFF


def find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    order = table.image.encoding.order
    data = _halves(code.data, order)
    where = mipsgot.first_word(table.image)
    for match in _STUB.finditer(data):
        index = symbol_index(match)
        start = code.vaddr + match.start()
        if where is not None and not start & 1 and index is not None:
            word, first, end = where
            if first <= index < end:
                slot = word + (index - first) * (table.image.encoding.bits // 8)
                yield FoundStub(start, len(match[1]), slot, MIPS_STUB)
    for match, slot, size in _entries(code.vaddr, data, order):
        start = code.vaddr + match.start()
        if not start & 1 and slot in table.slots:
            yield FoundStub(start, size, slot, PLT)


def _entries(vaddr: int, data: bytes, order: str) -> Iterator[tuple[re.Match[bytes], int, int]]:
    for match in _BESIDE.finditer(data):
        distance = int.from_bytes(match[1], "big")
        if distance >> 22:
            distance -= 1 << 23
        yield match, (vaddr + match.start() & ~3) + (distance << 2) & _MASK, 12
    for match in _ABSOLUTE.finditer(data):
        yield match, (signed(match["high"]) << 16) + signed(match["low"]) & _MASK, 16
    for match in _MIPS16.finditer(data):
        word = match[1] if order == ">" else match[1][2:] + match[1][:2]
        yield match, int.from_bytes(word, "big"), 16


def index_of(code: bytes, order: str) -> int | None:
    """Return the symbol's index in the stub at the start of `code`, None if there is none."""
    match = _STUB.match(_halves(code, order))
    return None if match is None else symbol_index(match)


def symbol_index(match: re.Match[bytes]) -> int | None:
    """Return the symbol's index that a stub passes to the loader, None if it is incomplete.

    `match` has the groups `low`, `high` and `alone`.
    """
    low = int.from_bytes(match["low"], "big")
    if match["high"] is None:
        return low if match["alone"] is not None else None
    return int.from_bytes(match["high"], "big") << 16 | low if match["alone"] is None else None


def _halves(data: bytes, order: str) -> bytes:
    """Return code with each 16 bits in big-endian order."""
    if order == ">":
        return data
    halves = array("H", data[: len(data) & ~1])
    halves.byteswap()
    return halves.tobytes()
