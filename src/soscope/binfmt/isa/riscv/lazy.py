# SPDX-License-Identifier: Apache-2.0
"""What an unbound slot's code gives the lazy resolver on RISC-V, by its bytes.

PLT0 and the resolver work it out from the place of the stub. glibc:
sysdeps/riscv/dl-trampoline.S.
"""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import FileSlot

_STUB = 16  # bytes
_FIRST = 32  # bytes of PLT0


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return what the resolver is given at the first call; `helper` is where the slot leads.

    None where the code has no shape that is known here.
    """
    if not slot.stubs:
        return None
    entry = mapped.image.encoding.rela.size
    return (slot.stubs[0].vaddr - helper - _FIRST) * entry // _STUB
