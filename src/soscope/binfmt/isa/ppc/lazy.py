# SPDX-License-Identifier: Apache-2.0
"""The argument that an unbound slot passes to the lazy resolver on PowerPC.

The resolver computes it from the address of the branch that the slot leads to. In ELFv1, that
branch passes the index of the relocation, and the trampoline turns it into an offset. glibc:
sysdeps/powerpc/powerpc{32,64}/dl-trampoline.S.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.ppc.slots import DT_PPC64_GLINK, FIRST, is_elfv2
from soscope.model.filemap import FileSlot

_GIVEN = re.compile(rb"\x38\0(..)[\x48-\x4b]", re.DOTALL)  # ELFv1: li %r0, index; b
_BRANCH = 4  # bytes


def argument_of(mapped: ElfMap, _slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    entry = mapped.image.encoding.rela.size
    if mapped.bits == 32:
        first = next((slot.helper for slot in mapped.slots if slot.helper), helper)
        return (helper - first) // _BRANCH * entry
    if is_elfv2(mapped.image):
        glink = mapped.image.dynamic.get(DT_PPC64_GLINK)
        return None if glink is None else (helper - glink - FIRST) // _BRANCH * entry
    given = _GIVEN.match(mapped.code(helper))
    return None if given is None else int.from_bytes(given[1], "big") * entry
