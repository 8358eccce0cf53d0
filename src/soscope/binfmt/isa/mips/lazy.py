# SPDX-License-Identifier: Apache-2.0
"""What an unbound slot's code gives the lazy resolver on MIPS, by its bytes.

A stub of the GOT has the symbol's index as a constant; for the PLT the resolver works it out from
the place of the slot, as an offset. glibc: sysdeps/mips/dl-trampoline.c.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.mips import mips16, stubs
from soscope.model.filemap import FileSlot

_RESERVED = 2  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return what the resolver is given at the first call; `helper` is where the slot leads.

    None where the code has no shape that is known here.
    """
    if slot.kind == "DT_MIPS_GOTSYM":
        order = mapped.image.encoding.order
        if helper & 1:  # microMIPS
            return mips16.index_of(mapped.code(helper - 1), order)
        return stubs.index_of(mapped.code(helper), order)
    got = mapped.image.dynamic.get(stubs.DT_MIPS_PLTGOT)
    size = mapped.bits // 8
    entry = 2 * size  # bytes of a relocation without an addend
    return None if got is None else ((slot.vaddr - got) // size - _RESERVED) * entry
