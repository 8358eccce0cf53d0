# SPDX-License-Identifier: Apache-2.0
"""The targets of unbound lazy slots on 64-bit PowerPC, whose .plt has no bytes in the file.

The loader fills .plt with the addresses of branches, one for each slot in order. DT_PPC64_GLINK
leads to these branches (glibc, sysdeps/powerpc/powerpc64/dl-machine.h:
elf_machine_runtime_setup).
"""

from __future__ import annotations

from collections.abc import Iterable

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filled import Filled
from soscope.binfmt.elf.reader import ElfReader
from soscope.model.arch import Arch

DT_PPC64_GLINK = 0x70000000
_EF_PPC64_ABI = 3  # e_flags: 2 is ELFv2, 0 and 1 are ELFv1

FIRST = 32  # bytes from the value of DT_PPC64_GLINK to the first branch
_SHORT = 0x8000  # ELFv1: slots from this number on take one more instruction


def is_elfv2(image: ElfReader) -> bool:
    """Return whether a slot is an address (ELFv2), not a descriptor of three words (ELFv1)."""
    abi = image.header.flags & _EF_PPC64_ABI if image.header else 0
    return abi == 2 or (not abi and image.encoding.order == "<")


def more(
    image: ElfReader, filled: Iterable[Filled], arch: Arch, _partial: list[str]
) -> tuple[list[Filled], dict[int, int]]:
    """Return no further slots, and the first targets of the lazy slots in `filled`."""
    if arch.bits == 32:
        return [], {}
    lazy = [entry.vaddr for entry in filled if entry.kind == arch.relocations.jump_slot]
    return [], helpers_of(image, lazy)


def helpers_of(image: ElfReader, slots: list[int]) -> dict[int, int]:
    """Return slot -> its target before it is bound, for the JMP_SLOTs `slots`."""
    glink, plt = image.dynamic.get(DT_PPC64_GLINK), image.dynamic.get(c.DT_PLTGOT)
    if glink is None or plt is None:
        return {}
    if is_elfv2(image):
        reserved, size = 16, 8
    else:
        reserved, size = 24, 24
    helpers = {}
    for vaddr in slots:
        index, rest = divmod(vaddr - plt - reserved, size)
        if rest or index < 0:
            continue
        if size == 8:
            helpers[vaddr] = glink + FIRST + 4 * index
        else:
            helpers[vaddr] = glink + FIRST + 8 * index + 4 * max(0, index - _SHORT)
    return helpers
