# SPDX-License-Identifier: Apache-2.0
"""The argument that an unbound slot passes to the lazy resolver on x86.

The stub or its lazy half has it as a constant. glibc: sysdeps/{x86_64,i386}/dl-trampoline.S.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.x86.shapes import MOVED, PUSHED
from soscope.model.filemap import FileSlot


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
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
