# SPDX-License-Identifier: Apache-2.0
"""The argument that an unbound slot passes to the lazy resolver on MIPS.

A stub of the GOT has the symbol's index as a constant. For the PLT, the resolver computes it from
the address of the slot, as an offset. glibc: sysdeps/mips/dl-trampoline.c.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.mips import mips16, stubs
from soscope.model.filemap import FileSlot

_RESERVED = 2  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    if slot.kind == "DT_MIPS_GOTSYM":
        order = mapped.image.encoding.order
        if helper & 1:  # microMIPS
            return mips16.index_of(mapped.code(helper - 1), order)
        return stubs.index_of(mapped.code(helper), order)
    got = mapped.image.dynamic.get(stubs.DT_MIPS_PLTGOT)
    size = mapped.bits // 8
    entry = 2 * size  # bytes of a relocation without addend
    return None if got is None else ((slot.vaddr - got) // size - _RESERVED) * entry
