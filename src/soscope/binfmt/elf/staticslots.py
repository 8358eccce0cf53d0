# SPDX-License-Identifier: Apache-2.0
"""The slots of a program without a dynamic section, which its start-up code fills.

They belong to the IRELATIVE relocations between two symbols, which are gone after stripping. The
relocations are found by section headers or, without them, by their byte pattern.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filled import Filled, filled_by
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relocations import Say, entries
from soscope.binfmt.elf.sections import Sections
from soscope.errors import FormatError
from soscope.model.arch import Arch

_SCANNED = 1 << 20  # bytes that are searched for relocations


def read(image: ElfImage, arch: Arch, sections: Sections, say: Say) -> list[Filled]:
    """Return the relocations that fill slots; errors are reported to `say`."""
    if not arch.relocations.irelative:
        return []
    filled: dict[int, Filled] = {}
    for section in sections.all:
        if section.type in (c.SHT_RELA, c.SHT_REL) and section.flags & c.SHF_ALLOC:
            has_addend = section.type == c.SHT_RELA
            table = section.offset, section.offset + section.size, has_addend, True
            data, _ = entries(image, table, (), say)
            for relocation in filled_by(
                arch, image.encoding, data, has_addend=has_addend, in_plt=True
            ):
                filled.setdefault(relocation.vaddr, relocation)
    if not sections.all:
        for relocation in _Looks(image, arch).find():
            filled.setdefault(relocation.vaddr, relocation)
    return [entry for entry in filled.values() if entry.kind in arch.relocations.irelative]


class _Looks:
    """Finds IRELATIVE relocations by their byte pattern."""

    def __init__(self, image: ElfImage, arch: Arch) -> None:
        self._image = image
        self._types = arch.relocations

    def _word(self, vaddr: int) -> int:
        """Return the word that the file has for a slot, 0 if it has none."""
        word = self._image.encoding.word
        try:
            data = self._image.source.read(self._image.locate(vaddr), word.size)
        except FormatError:
            return 0
        return int(word.unpack(data)[0]) if len(data) == word.size else 0

    def find(self) -> list[Filled]:
        """Return the entries of the one relocation table at the start of a static program."""
        image, coding = self._image, self._image.encoding
        segment = next((load for load in image.segments if load.type == c.PT_LOAD), None)
        if segment is None:
            return []
        data = image.source.read(segment.offset, min(segment.filesz, _SCANNED))
        for layout in (coding.rela, coding.rel):
            filled = []
            for kind in self._types.irelative:
                info = coding.word.pack(kind)
                at = data.find(info)
                while at >= 0:
                    start = at - coding.word.size
                    row = data[start : start + layout.size]
                    if start >= 0 and not start % coding.word.size and len(row) == layout.size:
                        vaddr, _, *rest = layout.unpack(row)
                        addend = rest[0] if rest else self._word(vaddr)
                        if self._is_slot(vaddr) and self._is_function(addend):
                            filled.append(Filled(vaddr, kind, 0, addend, -1))
                    at = data.find(info, at + 1)
            if filled:
                return filled
        return []

    def _is_slot(self, vaddr: int) -> bool:
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_W
            and segment.vaddr <= vaddr < segment.vaddr + segment.memsz
            for segment in self._image.segments
        )

    def _is_function(self, vaddr: int) -> bool:
        if self._is_code(vaddr):
            return True
        header = self._image.header
        if header is None or header.arch is None or not header.arch.has_descriptors:
            return False
        return self._is_slot(vaddr) and self._is_code(self._word(vaddr))

    def _is_code(self, vaddr: int) -> bool:
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_X
            and segment.vaddr <= vaddr < segment.vaddr + segment.memsz
            for segment in self._image.segments
        )
