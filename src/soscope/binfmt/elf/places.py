# SPDX-License-Identifier: Apache-2.0
"""Many addresses, one after the other: their sections, and where they lie in the file."""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.sections import Sections


class Places:
    """Which section an address lies in, and where in the file."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sorted(
            (one for one in sections.all if one.flags & c.SHF_ALLOC and one.size),
            key=lambda one: one.vaddr,
        )
        self._starts = [one.vaddr for one in self._sections]
        self._start = self._end = self._shift = 0
        self._name: str | None = None
        self._has_bytes = False

    def at(self, vaddr: int) -> tuple[str | None, int | None]:
        """Return (name, offset): None without a section, no offset where it has no bytes."""
        if not self._start <= vaddr < self._end and not self._turn_to(vaddr):
            return None, None
        return self._name, vaddr + self._shift if self._has_bytes else None

    def _turn_to(self, vaddr: int) -> bool:
        index = bisect_right(self._starts, vaddr) - 1
        if index < 0 or vaddr - self._starts[index] >= self._sections[index].size:
            return False
        section = self._sections[index]
        self._start, self._end = section.vaddr, section.vaddr + section.size
        self._shift = section.offset - section.vaddr
        self._name = section.name
        self._has_bytes = section.type != c.SHT_NOBITS
        return True
