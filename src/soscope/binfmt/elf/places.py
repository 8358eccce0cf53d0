# SPDX-License-Identifier: Apache-2.0
"""Find sections and file offsets for many addresses in a row."""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections

# start, end, section or None, and what to add to an address for its file offset (None: no bytes)
Place = tuple[int, int, str | None, int | None]


class Places:
    """Section of an address, by the section headers, and file offset, by the program headers.

    The program headers decide about the offset, because a section without bytes of its own may
    overlap bytes in the file (the .plt of ppc64), and section headers may be wrong.
    """

    def __init__(self, image: ElfReader, sections: Sections) -> None:
        self._sections = sorted(
            (section for section in sections.all if section.flags & c.SHF_ALLOC and section.size),
            key=lambda section: section.vaddr,
        )
        self._starts = [section.vaddr for section in self._sections]
        self._segments = [segment for segment in image.segments if segment.type == c.PT_LOAD]

    def around(self, vaddr: int) -> Place:
        """Return the range around an address that has one section and one file offset."""
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
