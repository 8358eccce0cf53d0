# SPDX-License-Identifier: Apache-2.0
"""The argument that an unbound slot passes to the lazy resolver on aarch64.

PLT0 and the resolver compute it from the address of the slot. glibc:
sysdeps/aarch64/dl-trampoline.S.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import FileSlot

_TIMES = 3  # bytes of relocation per byte of slot
_RESERVED = 3  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, _helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call.

    Return None if there is no DT_PLTGOT, and so no way to compute it.
    """
    got = mapped.image.dynamic.get(c.DT_PLTGOT)
    if got is None:
        return None
    return (slot.vaddr - got - _RESERVED * (mapped.bits // 8)) * _TIMES
