# SPDX-License-Identifier: Apache-2.0
"""The argument that an unbound slot passes to the lazy resolver on RISC-V.

PLT0 and the resolver compute it from the address of the stub. glibc:
sysdeps/riscv/dl-trampoline.S.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import FileSlot

_STUB = 16  # bytes
_FIRST = 32  # bytes of PLT0


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    if not slot.stubs:
        return None
    entry = mapped.image.encoding.rela.size
    return (slot.stubs[0].vaddr - helper - _FIRST) * entry // _STUB
