# SPDX-License-Identifier: Apache-2.0
"""Many addresses, one after the other: their sections, and where they lie in the file."""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections

# start, end, section or None, and what to add for the offset: None where there are no bytes
Place = tuple[int, int, str | None, int | None]


class Places:
    """Which section an address lies in, by the section headers, and where in the file it does.

    The latter is for the program headers to say: a section without bytes of its own may lie
    where the file has some (the .plt of ppc64), and section headers may be wrong.
    """

    def __init__(self, image: ElfReader, sections: Sections) -> None:
        self._sections = sorted(
            (section for section in sections.all if section.flags & c.SHF_ALLOC and section.size),
            key=lambda section: section.vaddr,
        )
        self._starts = [section.vaddr for section in self._sections]
        self._segments = [segment for segment in image.segments if segment.type == c.PT_LOAD]

    def around(self, vaddr: int) -> Place:
        """Return the stretch around an address of which all is in one place."""
        start, end, name = vaddr, vaddr + 1, None
        index = bisect_right(self._starts, vaddr) - 1
        if index >= 0 and vaddr - self._starts[index] < self._sections[index].size:
            section = self._sections[index]
            start, end, name = section.vaddr, section.vaddr + section.size, section.name
        for segment in self._segments:
            if segment.vaddr <= vaddr < segment.vaddr + segment.filesz:
                start, end = max(start, segment.vaddr), min(end, segment.vaddr + segment.filesz)
                return start, end, name, segment.offset - segment.vaddr
        return vaddr, vaddr + 1, name, None
