# SPDX-License-Identifier: Apache-2.0
"""Stubs on 32-bit PowerPC.

With the secure PLT, stubs lie among the functions, and .plt has only addresses. A stub of
position-independent code addresses its slot by the distance from %r30, which its caller sets
(`soscope.binfmt.isa.ppc.pic`). With the older BSS PLT the slot is the stub: the loader writes
code into it (GNU ld, elf32-ppc.c; the PowerPC supplement to the System V ABI).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.isa.ppc.pic import shapes, tied
from soscope.binfmt.stubs.table import Code, FoundStub, SlotTable
from soscope.binfmt.stubs.words import signed
from soscope.model.filemap import CALL_STUB, IPLT, PLT

DT_PPC_GOT = 0x70000000

# lis %r11, high; lwz %r11, low(%r11); mtctr %r11; bctr
_ABSOLUTE = re.compile(
    rb"\x3d\x60(?P<high>..)\x81\x6b(?P<low>..)\x7d\x69\x03\xa6\x4e\x80\x04\x20", re.DOTALL
)
_ENTRY = 8  # bytes of an entry of the BSS PLT
_SIZE = 16
_MASK = 0xFFFF_FFFF


def find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    for match in _ABSOLUTE.finditer(code.data):
        slot = (signed(match["high"]) << 16) + signed(match["low"]) & _MASK
        vaddr = code.vaddr + match.start()
        if not vaddr & 3 and slot in table.slots:
            yield FoundStub(vaddr, _SIZE, slot, IPLT if table.slots[slot] else CALL_STUB)
    slots = None
    for start, end, _ in shapes(code.data):
        vaddr = code.vaddr + start
        if vaddr & 3:
            continue
        if slots is None:
            slots = tied(table)
        slot = slots.get(vaddr, -1)
        if slot >= 0:
            yield FoundStub(vaddr, end - start, slot, IPLT if table.slots.get(slot) else CALL_STUB)


def in_place(table: SlotTable) -> Iterator[FoundStub]:
    """Yield the slots that are stubs at the same time: the entries of a BSS PLT."""
    if table.tag(DT_PPC_GOT) is not None:
        return
    code = [
        segment
        for segment in table.image.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]
    for vaddr in table.calls:
        if any(0 <= vaddr - segment.vaddr < segment.memsz for segment in code):
            yield FoundStub(vaddr, _ENTRY, vaddr, PLT)
