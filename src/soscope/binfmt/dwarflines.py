# SPDX-License-Identifier: Apache-2.0
"""Files and lines of code, from the line tables of DWARF 2 to 5.

A unit's lines are read when the caller first asks for one of its addresses. Of the rest of the
file, only the table that maps addresses to units is read. Only little-endian 64-bit images and
32-bit DWARF are read here.

If a linker drops a function (--gc-sections, COMDAT), it keeps the function's lines, at address 0
or another address without code. From there the lines may overlap other functions, so they are
left out.
"""

from __future__ import annotations

from bisect import bisect_right
from io import BytesIO

from soscope.binfmt.dwarfentries import Entries, EntryError, uleb
from soscope.binfmt.dwarffiles import LineHead, line_head
from soscope.binfmt.dwarfranges import UnitRanges, in_order
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.foreignlines import ForeignLines

Place = tuple[str, int] | None
_Rows = tuple[list[int], list[Place]]
_Row = tuple[int, int, int]  # address, file, line; the file is _NO_FILE at the end of a sequence
_NO_LINES: _Rows = ([], [])
_NO_FILE = -1
_MOST = 1 << 29  # bytes of all sections, at most
_AT_STMT_LIST, _AT_COMP_DIR = 0x10, 0x1B
_OF_ENTRIES = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_line",
)
_OF_RANGES = (".debug_aranges", ".debug_ranges", ".debug_rnglists", ".debug_addr")

# Opcodes of line number programs (DWARF 5, 6.2.5), standard and extended ones.
_EXTENDED, _COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = range(5)
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


class DwarfLines:
    """The lines of a file; a file without DWARF has none.

    pyelftools reads the lines of images that are not little-endian or not 64-bit.
    """

    __slots__ = ("_entries", "_foreign", "_is_code", "_lines", "_ranges", "_strings", "_units")

    def __init__(self, image: ElfImage) -> None:
        self._units: dict[int, _Rows] = {}
        self._entries: Entries | None = None
        self._foreign = _foreign_lines(image)
        known = _contents(image)
        if known is None:
            return
        contents, sections = known
        self._is_code = sections.is_code
        self._lines = contents[".debug_line"]
        self._strings = contents[".debug_str"], contents[".debug_line_str"]
        self._entries = Entries(*(contents[name] for name in _OF_ENTRIES))
        self._ranges = UnitRanges(self._entries, contents, self._is_code)

    def at(self, vaddr: int) -> tuple[str, int] | None:
        """Return (file, line) of link-time address `vaddr`, None if they are not known."""
        if self._entries is None:
            return None if self._foreign is None else self._foreign.at(vaddr)
        unit = self._ranges.unit_at(vaddr)
        if unit is None:
            return None
        rows = self._units.get(unit)
        if rows is None:
            try:
                rows = self._read(self._entries, unit)
            except (EntryError, IndexError, ValueError):
                rows = _NO_LINES  # damaged, or of a kind that is not read here
            self._units[unit] = rows
        starts, places = rows
        at = bisect_right(starts, vaddr) - 1
        return places[at] if at >= 0 else None

    def _read(self, entries: Entries, unit: int) -> _Rows:
        top = entries.top_at(unit)
        program, folder = top.number(_AT_STMT_LIST), top.values.get(_AT_COMP_DIR, b"")
        if program is None:
            return _NO_LINES
        head = line_head(self._lines, program, *self._strings)
        paths = head.paths(
            folder.decode("utf-8", "surrogateescape") if isinstance(folder, bytes) else ""
        )
        places: dict[tuple[int, int], Place] = {}
        rows = in_order(_sequences(self._lines, head), self._is_code)
        for _, file, line in rows:
            if (file, line) not in places:
                is_known = line and 0 <= file < len(paths)
                places[file, line] = (paths[file], line) if is_known else None
        return [addr for addr, _, _ in rows], [places[file, line] for _, file, line in rows]


def _foreign_lines(image: ElfImage) -> ForeignLines | None:
    header = image.header
    if header is None or (header.encoding.bits == 64 and header.encoding.order == "<"):
        return None
    try:
        from soscope.binfmt.foreignlines import ForeignLines

        return ForeignLines(BytesIO(image.source.read(0, _MOST)), Sections.read(image).is_code)
    except (FormatError, ImportError, OSError):
        return None


def _contents(image: ElfImage) -> tuple[dict[str, bytes], Sections] | None:
    """Return the sections needed, by name, and all sections; None if the file has no lines."""
    header = image.header
    if header is None or header.encoding.bits != 64 or header.encoding.order != "<":
        return None
    contents: dict[str, bytes] = {}
    room = _MOST
    try:
        sections = Sections.read(image)
        if sections.named(".debug_line") is None or sections.named(".debug_info") is None:
            return None
        for name in (*_OF_ENTRIES, *_OF_RANGES):
            section = sections.named(name)
            content: bytes | None = b""
            if section is not None and section.size:
                content = sections.unpacked(section, header.encoding, room)
            if content is None:
                return None  # it is packed in an unknown way
            contents[name] = content
            room -= len(content)
    except (FormatError, OSError):
        return None
    return contents, sections


def _sequences(data: bytes, head: LineHead) -> list[list[_Row]]:
    """Return the sequences of a line program; the last row of each is its end."""
    sequences: list[list[_Row]] = []
    rows: list[_Row] = []
    at, end, step = head.first, head.end, head.step
    base, line_base, line_range = head.opcode_base, head.line_base, head.line_range
    constant = (255 - base) // line_range * step
    addr, file, line = 0, 1, 1
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= base:
            opcode -= base
            addr += opcode // line_range * step
            line += line_base + opcode % line_range
            rows.append((addr, file, line))
        elif opcode == _COPY:
            rows.append((addr, file, line))
        elif opcode == _ADVANCE_PC:
            delta, at = uleb(data, at)
            addr += delta * step
        elif opcode == _ADVANCE_LINE:
            start = at
            delta, at = uleb(data, at)
            line += delta - (1 << 7 * (at - start)) if data[at - 1] & 0x40 else delta
        elif opcode == _SET_FILE:
            file, at = uleb(data, at)
        elif opcode == _CONST_ADD_PC:
            addr += constant
        elif opcode == _FIXED_ADVANCE_PC:
            addr += int.from_bytes(data[at : at + 2], "little")
            at += 2
        elif opcode == _EXTENDED:
            size, at = uleb(data, at)
            kind = data[at]
            if kind == _END_SEQUENCE:
                rows.append((addr, _NO_FILE, 0))
                sequences.append(rows)
                rows = []
                addr, file, line = 0, 1, 1
            elif kind == _SET_ADDRESS:
                addr = int.from_bytes(data[at + 1 : at + size], "little")
            at += size
        else:
            for _ in range(head.operands[opcode - 1]):
                _, at = uleb(data, at)
    return sequences
