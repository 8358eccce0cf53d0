# SPDX-License-Identifier: Apache-2.0
"""What an unbound slot's code gives the lazy resolver on x86, by its bytes.

The stub or its lazy half has it as a constant. glibc: sysdeps/{x86_64,i386}/dl-trampoline.S.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.x86.shapes import MOVED, PUSHED
from soscope.model.filemap import FileSlot


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return what the resolver is given at the first call; `helper` is where the slot leads.

    None where the code has no shape that is known here.
    """
    pushed = PUSHED.match(mapped.code(helper))
    if pushed is not None:
        return int.from_bytes(pushed[1], "little")
    moved = {
        int.from_bytes(match[1], "little")
        for stub in slot.stubs
        if (match := MOVED.match(mapped.code(stub.vaddr))) is not None
    }
    return moved.pop() if len(moved) == 1 else None
