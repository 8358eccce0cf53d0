# SPDX-License-Identifier: Apache-2.0
"""TOC pointers of 64-bit PowerPC: the values of %r2 in the code of an image."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.symbols.table import dynamic_table
from soscope.binfmt.isa.ppc.frames import function_at
from soscope.binfmt.isa.ppc.slots import is_elfv2
from soscope.binfmt.stubs.table import SlotTable
from soscope.binfmt.stubs.words import big_endian, signed
from soscope.errors import FormatError

# addis %r2, %r12, high or lis %r2, high; addi %r2, %r2, low: a function sets its TOC pointer
# (ELFv2)
_SET = re.compile(rb"\x3c(?P<from>[\x4c\x40])(?P<high>..)\x38\x42(?P<low>..)", re.DOTALL)
_ABSOLUTE = b"\x40"
_BIAS = 0x8000  # from the start of the TOC to the pointer's target
_ALIGN = 256  # GNU ld rounds the start of the TOC down
_MASK = (1 << 64) - 1
_KEY = "toc"
DT_INIT = 12
DT_FINI = 13


def toc_pointers(table: SlotTable) -> tuple[int, ...]:
    """Return the TOC pointers of an image: one, except in very large images."""
    known = tuple(dict.fromkeys(pointer for _, pointer in _functions(table)))
    return known or tuple(base + _BIAS for base in table.bases if base != table.got)[:1]


def pointer_at(table: SlotTable, place: int) -> int | None:
    """Return the TOC pointer of the code at `place`, None if it may be one or another.

    The function around `place` tells. If it does not, the functions before and behind it do,
    because code with the same pointer lies together.
    """
    functions = _functions(table)
    index = bisect_right(functions, (place, _MASK))
    if index and functions[index - 1][0] >= function_at(table, place):
        return functions[index - 1][1]
    beside = {pointer for _, pointer in functions[max(0, index - 1) : index + 1]}
    return beside.pop() if len(beside) == 1 else None


def _functions(table: SlotTable) -> list[tuple[int, int]]:
    """Return (start of a function, its TOC pointer) of all known functions, sorted."""
    known: list[tuple[int, int]] | None = table.notes.get(_KEY)
    if known is None:
        functions = _of_code(table) if is_elfv2(table.image) else _of_descriptors(table)
        known = table.notes[_KEY] = sorted(set(functions))
    return known


def _of_code(table: SlotTable) -> Iterator[tuple[int, int]]:
    """Yield (function, TOC pointer) as functions of ELFv2 compute it at their global entries."""
    from soscope.binfmt.stubs.finder import all_code

    for code in all_code(table):
        for match in _SET.finditer(big_endian(code.data, table.image.encoding.order)):
            vaddr = code.vaddr + match.start()
            if vaddr & 3:
                continue
            value = (signed(match["high"]) << 16) + signed(match["low"])
            if match["from"] != _ABSOLUTE:
                value += vaddr
            if _is_data(table, value - _BIAS & _MASK):
                yield vaddr, value & _MASK


def _of_descriptors(table: SlotTable) -> Iterator[tuple[int, int]]:
    """Yield (function, TOC pointer) from the function descriptors that are known in the file."""
    image = table.image
    places = [table.tag(DT_INIT), table.tag(DT_FINI), image.header.entry if image.header else 0]
    try:
        symbols = dynamic_table(image)
    except FormatError as error:
        table.say(str(error))
    else:
        for _, info, _, section, value, _ in symbols.rows():
            if info & 15 == c.STT_FUNC and section != c.SHN_UNDEF:
                places.append(value)
    for place in places:
        if place:
            entry, pointer = table.word(place), table.word(place + 8)
            if entry is None or pointer is None:
                continue
            if _is_data(table, pointer - _BIAS & _MASK):
                yield entry, pointer


def _is_data(table: SlotTable, vaddr: int) -> bool:
    return any(
        segment.type == c.PT_LOAD
        and segment.flags & c.PF_W
        and -_ALIGN < vaddr - segment.vaddr <= segment.memsz
        for segment in table.image.segments
    )
