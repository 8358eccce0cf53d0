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
            (one for one in sections.all if one.flags & c.SHF_ALLOC and one.size),
            key=lambda one: one.vaddr,
        )
        self._starts = [one.vaddr for one in self._sections]
        self._segments = [one for one in image.segments if one.type == c.PT_LOAD]

    def around(self, vaddr: int) -> Place:
        """Return the stretch around an address of which all is in one place."""
        start, end, name = vaddr, vaddr + 1, None
        index = bisect_right(self._starts, vaddr) - 1
        if index >= 0 and vaddr - self._starts[index] < self._sections[index].size:
            section = self._sections[index]
            start, end, name = section.vaddr, section.vaddr + section.size, section.name
        for one in self._segments:
            if one.vaddr <= vaddr < one.vaddr + one.filesz:
                start, end = max(start, one.vaddr), min(end, one.vaddr + one.filesz)
                return start, end, name, one.offset - one.vaddr
        return vaddr, vaddr + 1, name, None
