# SPDX-License-Identifier: Apache-2.0
"""What an unbound slot's code gives the lazy resolver on 32-bit ARM, by its bytes.

PLT0 and the resolver work it out from the place of the slot. glibc:
sysdeps/arm/dl-trampoline.S.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import FileSlot

_TIMES = 2  # bytes of a relocation for each byte of a slot
_RESERVED = 3  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, _helper: int) -> int | None:
    """Return what the resolver is given at the first call.

    None where the code has no shape that is known here.
    """
    got = mapped.image.dynamic.get(c.DT_PLTGOT)
    if got is None:
        return None
    return (slot.vaddr - got - _RESERVED * (mapped.bits // 8)) * _TIMES
