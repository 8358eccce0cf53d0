# SPDX-License-Identifier: Apache-2.0
"""Where lazy slots of 64-bit PowerPC lead at first: .plt has no bytes in the file.

The loader fills it with the addresses of the branches that DT_PPC64_GLINK leads to, one for each
slot in order (glibc, sysdeps/powerpc/powerpc64/dl-machine.h: elf_machine_runtime_setup).
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.machines import EF_PPC64_ABI
from soscope.binfmt.elf.reader import ElfReader

DT_PPC64_GLINK = 0x70000000

FIRST = 32  # bytes from what DT_PPC64_GLINK says to the first branch
_SHORT = 0x8000  # ELFv1: the number of a later slot takes an instruction more


def is_elfv2(image: ElfReader) -> bool:
    """Say whether a slot is an address (ELFv2), not a descriptor of three words (ELFv1)."""
    abi = image.header.flags & EF_PPC64_ABI if image.header else 0
    return abi == 2 or (not abi and image.encoding.order == "<")


def helpers(image: ElfReader, slots: list[int]) -> dict[int, int]:
    """Return for each of the JMP_SLOTs `slots` where it leads at first."""
    glink, plt = image.dynamic.get(DT_PPC64_GLINK), image.dynamic.get(c.DT_PLTGOT)
    if glink is None or plt is None:
        return {}
    if is_elfv2(image):
        reserved, size = 16, 8
    else:
        reserved, size = 24, 24
    found = {}
    for vaddr in slots:
        index, rest = divmod(vaddr - plt - reserved, size)
        if rest or index < 0:
            continue
        if size == 8:
            found[vaddr] = glink + FIRST + 4 * index
        else:
            found[vaddr] = glink + FIRST + 8 * index + 4 * max(0, index - _SHORT)
    return found
