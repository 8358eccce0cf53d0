# SPDX-License-Identifier: Apache-2.0
"""Find the function to which an IFUNC that is only in .symtab was resolved.

A static program has no dynamic section, and a local IFUNC has no name in one. But the relocation
for it is in a section of the file all the same (R_X86_64_IRELATIVE: its addend is the resolver,
its slot holds the resolver's result). The resolver is not run.
"""

from __future__ import annotations

from soscope.binfmt.elf.sections import Sections
from soscope.errors import FormatError
from soscope.live.images.loadedimage import LoadedImage

_SHT_RELA = 4
_MAX_BYTES = 1 << 28


def targets(image: LoadedImage, resolver: int) -> list[int]:
    """Return the contents of slots for the IFUNC whose resolver is at vaddr `resolver`."""
    file = image.file
    irelative = frozenset() if image.arch is None else image.arch.relocations.irelative
    if file is None or file.elf.encoding.bits != 64:
        return []
    values: dict[int, None] = {}
    try:
        sections = Sections.read(file.elf)
        for section in sections.all:
            if section.type != _SHT_RELA:
                continue
            data = sections.data(section, _MAX_BYTES)
            layout = file.elf.encoding.rela
            for slot, info, addend in layout.iter_unpack(data[: len(data) // 24 * 24]):
                if info & 0xFFFF_FFFF in irelative and addend == resolver:
                    value = image.space.word(slot + image.load_bias)
                    if value and value != resolver + image.load_bias and image.executes(value):
                        values[value] = None
    except FormatError:
        return []
    return list(values)
