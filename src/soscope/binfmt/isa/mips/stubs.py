# SPDX-License-Identifier: Apache-2.0
"""Stubs on MIPS, o32, n32 and n64, in both byte orders.

Code calls through the GOT. A function's word leads to a stub in .MIPS.stubs until the loader has
bound it. A program that is not position-independent may have a PLT as well (GNU ld,
elfxx-mips.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.isa.mips import mips16
from soscope.binfmt.isa.mips import slots as mipsgot
from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.binfmt.stubs.words import big_endian, signed
from soscope.model.arch import Arch
from soscope.model.filemap import MIPS_STUB, PLT

_PLACES = (".MIPS.stubs", ".plt")
DT_MIPS_PLTGOT = 0x70000032

# lw or ld $t9, -0x7ff0($gp); move $t7, $ra; [lui $t8, high;] jalr $t9;
# li $t8, low or ori $t8, $t8, low
_STUB = re.compile(
    rb"(?=([\x8f\xdf]\x99\x80\x10\x03\xe0\x78[\x21\x25\x2d](?:\x3c\x18(?P<high>..))?"
    rb"\x03\x20\xf8\x09(?:(?P<alone>[\x24\x34\x64]\x18)|\x37\x18)(?P<low>..)))",
    re.DOTALL,
)
# lui $t7, high; lw or ld $t9, low($t7); addiu or daddiu $t8, $t7, low; jr $t9 (before or behind)
_ENTRY = re.compile(
    rb"(?=\x3c\x0f(?P<high>..)[\x8d\xdd]\xf9(?P<low>..)"
    rb"(?:[\x25\x65]\xf8(?P=low)\x03\x20\x00[\x08\x09]|\x03\x20\x00[\x08\x09][\x25\x65]\xf8(?P=low)))",
    re.DOTALL,
)
_SIZE = 16


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data = big_endian(code.data, table.image.encoding.order)
    bits = table.image.encoding.bits
    mask = (1 << bits) - 1
    where = mipsgot.first_word(table.image)
    for match in _STUB.finditer(data):
        start = code.vaddr + match.start()
        if start & 3 or where is None:
            continue
        index = mips16.symbol_index(match)
        word, first, end = where
        if index is not None and first <= index < end:
            slot = word + (index - first) * (bits // 8)
            yield FoundStub(start, len(match[1]), slot, MIPS_STUB)
    for match in _ENTRY.finditer(data):
        start = code.vaddr + match.start()
        high, low = signed(match["high"]), signed(match["low"])
        slot = (high << 16) + low & mask
        if not start & 3 and (slot in table.slots or code.section is not None):
            yield FoundStub(start, _SIZE, slot, PLT)
    if table.flags & mipsgot.SHORTER:
        yield from mips16.find(code, table)


def index_of(code: bytes, order: str) -> int | None:
    """Return the symbol's index in the stub at the start of `code`, None if there is none."""
    match = _STUB.match(big_endian(code, order))
    return None if match is None else mips16.symbol_index(match)
