# SPDX-License-Identifier: Apache-2.0
"""The code of one Mach-O image, as whoever follows a call through it asks for it."""

from __future__ import annotations

from soscope.binfmt.macho import constants as c
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.image import Section
from soscope.binfmt.macho.symbols import Row
from soscope.binfmt.spans import Spans
from soscope.inspect.filecode import FileCode, Function
from soscope.inspect.resolvers import DYLD

_CODE = c.S_ATTR_PURE_INSTRUCTIONS | c.S_ATTR_SOME_INSTRUCTIONS


class MachoCode(FileCode):
    """A Mach-O image."""

    loader = DYLD

    def __init__(self, found: MachoMap) -> None:
        self._map = found
        self.bits = found.image.encoding.bits
        self.order = found.image.encoding.order
        self._sections = Spans((one.vaddr, one.vaddr + one.size) for one in found.image.sections)
        self._slots = {one.vaddr: one.symbol for one in found.slots}

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address."""
        return self._map.image.read(vaddr, size)

    def length(self) -> int:
        """Return how long the image is."""
        return self._map.image.size

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return the sections of code."""
        return [
            (one.vaddr, one.size, one.name)
            for one in self._map.image.sections
            if one.flags & _CODE and one.has_bytes
        ]

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address."""
        found = self._section(vaddr)
        return "" if found is None else found.name

    def _section(self, vaddr: int) -> Section | None:
        number = self._sections.at(vaddr)
        return None if number is None else self._map.image.sections[number]

    def functions(self) -> list[Function]:
        """Return the symbols that lie in code."""
        table = self._map.table
        sections = self._map.image.sections
        code = {index for index, one in enumerate(sections, 1) if one.flags & _CODE}
        found: dict[int, Row] = {}
        for row in table.rows(0, len(table)):
            if not row.type & c.N_STAB and row.type & c.N_TYPE == c.N_SECT and row.section in code:
                found.setdefault(row.value, row)
        return [Function(value, 0, table.name(row)) for value, row in sorted(found.items())]

    def cell(self, vaddr: int) -> str:
        """Name what the stub helpers go through, or where dyld keeps its notes."""
        symbol = self._slots.get(vaddr, "")
        if symbol:
            return symbol
        found = self._map.table.at({vaddr}).get(vaddr)
        return "" if found is None else self._map.table.name(found)
