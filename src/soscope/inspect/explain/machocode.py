# SPDX-License-Identifier: Apache-2.0
"""The code of one Mach-O image, for following a call through it."""

from __future__ import annotations

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.image import MachoSection
from soscope.binfmt.macho.symbols import Nlist
from soscope.binfmt.search import Spans
from soscope.inspect.explain.filecode import FileCode, FileFunction
from soscope.inspect.explain.resolvers import DYLD

_CODE = c.S_ATTR_PURE_INSTRUCTIONS | c.S_ATTR_SOME_INSTRUCTIONS


class MachoCode(FileCode):
    """The code of a Mach-O image."""

    loader = DYLD

    def __init__(self, macho: MachoMap) -> None:
        self._map = macho
        self.bits = macho.image.encoding.bits
        self.order = macho.image.encoding.order
        self._sections = Spans(
            (section.vaddr, section.vaddr + section.size) for section in macho.image.sections
        )
        self._slots = {slot.vaddr: slot.symbol for slot in macho.slots}

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address."""
        return self._map.image.read(vaddr, size)

    def length(self) -> int:
        """Return the length of the image."""
        return self._map.image.size

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return the sections with code."""
        return [
            (section.vaddr, section.size, section.name)
            for section in self._map.image.sections
            if section.flags & _CODE and section.has_bytes
        ]

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address."""
        section = self._section(vaddr)
        return "" if section is None else section.name

    def _section(self, vaddr: int) -> MachoSection | None:
        number = self._sections.at(vaddr)
        return None if number is None else self._map.image.sections[number]

    def functions(self) -> list[FileFunction]:
        """Return the symbols in sections with code."""
        table = self._map.table
        sections = self._map.image.sections
        code = {index for index, section in enumerate(sections, 1) if section.flags & _CODE}
        rows: dict[int, Nlist] = {}
        for row in table.rows(0, len(table)):
            if not row.type & c.N_STAB and row.type & c.N_TYPE == c.N_SECT and row.section in code:
                rows.setdefault(row.value, row)
        return [FileFunction(value, 0, table.name(row)) for value, row in sorted(rows.items())]

    def cell(self, vaddr: int) -> str:
        """Return the name of a cell that stub helpers go through, or in which dyld stores data."""
        symbol = self._slots.get(vaddr, "")
        if symbol:
            return symbol
        row = self._map.table.at({vaddr}).get(vaddr)
        return "" if row is None else self._map.table.name(row)
