# SPDX-License-Identifier: Apache-2.0
"""TOC pointers of 64-bit PowerPC: what the code of an image has in %r2."""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.ppc64glink import is_elfv2
from soscope.binfmt.elf.symbolarray import dynamic_table
from soscope.binfmt.stubs.table import SlotTable
from soscope.binfmt.stubs.words import big_endian, signed
from soscope.errors import FormatError

# addis %r2, %r12, high or lis %r2, high; addi %r2, %r2, low: how a function finds its own (ELFv2)
_SET = re.compile(rb"\x3c(?P<from>[\x4c\x40])(?P<high>..)\x38\x42(?P<low>..)", re.DOTALL)
_ABSOLUTE = b"\x40"
_BIAS = 0x8000  # from the start of the TOC to where its pointer leads
_ALIGN = 256  # GNU ld rounds the start of the TOC down
_MASK = (1 << 64) - 1
_KEY = "toc"
DT_INIT = 12
DT_FINI = 13


def toc_pointers(table: SlotTable) -> tuple[int, ...]:
    """Return the TOC pointers of an image: one, but for very large ones."""
    known: tuple[int, ...] | None = table.notes.get(_KEY)
    if known is None:
        found = _of_functions(table) if is_elfv2(table.image) else _of_descriptors(table)
        if not found:
            found = [one + _BIAS for one in table.bases if one != table.got][:1]
        known = table.notes[_KEY] = tuple(dict.fromkeys(found))
    return known


def _of_functions(table: SlotTable) -> list[int]:
    """Return what the functions of ELFv2 compute at their global entries."""
    from soscope.binfmt.stubs.finder import all_code

    found = []
    for code in all_code(table):
        for match in _SET.finditer(big_endian(code.data, table.image.encoding.order)):
            vaddr = code.vaddr + match.start()
            if vaddr & 3:
                continue
            value = (signed(match["high"]) << 16) + signed(match["low"])
            if match["from"] != _ABSOLUTE:
                value += vaddr
            if _is_data(table, value - _BIAS & _MASK):
                found.append(value & _MASK)
    return found


def _of_descriptors(table: SlotTable) -> list[int]:
    """Return the second words of the function descriptors that the file is known to have."""
    image = table.image
    places = [table.tag(DT_INIT), table.tag(DT_FINI), image.header.entry if image.header else 0]
    try:
        symbols = dynamic_table(image)
    except FormatError as error:
        table.say(str(error))
    else:
        for _, info, section, value, _ in symbols.rows():
            if info & 15 == c.STT_FUNC and section != c.SHN_UNDEF:
                places.append(value)
    found = []
    for place in places:
        if place:
            toc = table.word(place + 8)
            if toc is not None and _is_data(table, toc - _BIAS & _MASK):
                found.append(toc)
    return found


def _is_data(table: SlotTable, vaddr: int) -> bool:
    return any(
        one.type == c.PT_LOAD and one.flags & c.PF_W and -_ALIGN < vaddr - one.vaddr <= one.memsz
        for one in table.image.segments
    )
