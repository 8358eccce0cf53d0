# SPDX-License-Identifier: Apache-2.0
"""Many addresses, one after the other: their sections, and where they lie in the file."""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections


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
        self._start = self._end = 0
        self._name: str | None = None
        self._segments = [one for one in image.segments if one.type == c.PT_LOAD]
        self._low = self._high = self._shift = 0

    def at(self, vaddr: int) -> tuple[str | None, int | None]:
        """Return (name, offset): None without a section, no offset where there are no bytes."""
        name = offset = None
        if self._start <= vaddr < self._end or self._turn_to(vaddr):
            name = self._name
        if self._low <= vaddr < self._high or self._go_to(vaddr):
            offset = vaddr + self._shift
        return name, offset

    def _turn_to(self, vaddr: int) -> bool:
        index = bisect_right(self._starts, vaddr) - 1
        if index < 0 or vaddr - self._starts[index] >= self._sections[index].size:
            return False
        section = self._sections[index]
        self._start, self._end = section.vaddr, section.vaddr + section.size
        self._name = section.name
        return True

    def _go_to(self, vaddr: int) -> bool:
        for one in self._segments:
            if one.vaddr <= vaddr < one.vaddr + one.filesz:
                self._low, self._high = one.vaddr, one.vaddr + one.filesz
                self._shift = one.offset - one.vaddr
                return True
        return False
