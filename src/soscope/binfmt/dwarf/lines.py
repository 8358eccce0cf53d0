# SPDX-License-Identifier: Apache-2.0
"""Files and lines of code from the line tables of DWARF, and the unit of an address.

DWARF 2 to 5. A unit is read when a caller first asks for one of its addresses. This module reads
little-endian images of 64 bits. `foreignlines.py` reads all others.
"""

from __future__ import annotations

from bisect import bisect_right
from io import BytesIO
from struct import Struct

from soscope.binfmt.dwarf.entries import DwarfEntry, Entries, EntryError, LineHead, line_head
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import uleb
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from soscope.binfmt.dwarf.foreignlines import ForeignLines

    Row = TypeVar("Row", bound=tuple[int, Any] | tuple[int, int, int])


# Find the unit of an address, by .debug_aranges or else by the ranges in the units' entries.
#
# DWARF 5, 6.1.2 and 2.17. Compilers may write no .debug_aranges (clang), or only for some of the
# units.

AT_LOW_PC, AT_HIGH_PC, AT_RANGES = 0x11, 0x12, 0x55
_AT_ADDR_BASE, _AT_RANGE_BASE = 0x73, 0x74
_FORM_ADDR, _FORM_RANGE_INDEX = 0x01, 0x23
_ADDR_INDEX = (0x1B, 0x29, 0x2A, 0x2B, 0x2C)
_HEAD = Struct("<IHIBB")
_PAIR = Struct("<QQ")
_U32 = Struct("<I")
_MASK = (1 << 64) - 1
_END, _BASE_INDEX, _START_END_INDEX, _START_SIZE_INDEX, _OFFSETS, _BASE, _START_END, _START_SIZE = (
    range(8)
)
Range = tuple[int, int]


class UnitRanges:
    """The units of a file by address; `sections` are the contents of the sections it reads.

    `is_code` returns whether there is code at an address. If a range begins where there is no
    code, the linker has dropped its function.
    """

    def __init__(
        self, entries: Entries, sections: dict[str, bytes], is_code: Callable[[int], bool]
    ) -> None:
        self._entries = entries
        self._sections = sections
        self._is_code = is_code
        rows = list(_aranges(sections.get(".debug_aranges", b"")))
        self._told = {unit for _, _, unit in rows}
        self._rows = sorted([row for row in rows if is_code(row[0])])
        self._starts = [row[0] for row in self._rows]
        self._is_whole = False

    def unit_at(self, vaddr: int) -> int | None:
        """Return the offset of the unit that contains an address, None if there is none."""
        unit = self._look(vaddr)
        if unit is None and not self._is_whole:
            self._is_whole = True
            self._rows = sorted([*self._rows, *self._others()])
            self._starts = [row[0] for row in self._rows]
            unit = self._look(vaddr)
        return unit

    def _look(self, vaddr: int) -> int | None:
        at = bisect_right(self._starts, vaddr) - 1
        if at < 0 or not vaddr < self._rows[at][1]:
            return None
        return self._rows[at][2]

    def _others(self) -> list[tuple[int, int, int]]:
        """Return the ranges of units that .debug_aranges does not list."""
        rows: list[tuple[int, int, int]] = []
        for start in self._entries.starts:
            if start in self._told:
                continue
            try:
                top = self._entries.top_at(start)
                rows += [
                    (begin, end, start)
                    for begin, end in self._ranges(top)
                    if begin < end and self._is_code(begin)
                ]
            except (EntryError, IndexError, ValueError):
                continue  # a damaged unit, or one of another kind
        return rows

    def _ranges(self, top: DwarfEntry) -> list[Range]:
        low = self._addr(top, AT_LOW_PC)
        ranges, high = top.number(AT_RANGES), top.number(AT_HIGH_PC)
        if ranges is not None:
            if top.unit.version >= 5:
                return self._of_list(top, ranges, low or 0)
            return _pairs(self._sections.get(".debug_ranges", b""), ranges, low or 0)
        if low is None or high is None:
            return []
        return [(low, high if top.forms[AT_HIGH_PC] == _FORM_ADDR else low + high)]

    def _addr(self, top: DwarfEntry, attribute: int) -> int | None:
        value = top.number(attribute)
        if value is not None and top.forms[attribute] in _ADDR_INDEX:
            return self._indexed(top, value)
        return value

    def _indexed(self, top: DwarfEntry, index: int) -> int:
        at = (top.number(_AT_ADDR_BASE) or 8) + 8 * index
        data = self._sections.get(".debug_addr", b"")[at : at + 8]
        if len(data) < 8:
            raise EntryError("an address outside of its section")
        return int.from_bytes(data, "little")

    def _of_list(self, top: DwarfEntry, at: int, base: int) -> list[Range]:
        data = self._sections.get(".debug_rnglists", b"")
        if top.forms[AT_RANGES] == _FORM_RANGE_INDEX:
            first = top.number(_AT_RANGE_BASE) or 12
            at = first + _U32.unpack_from(data, first + 4 * at)[0]
        ranges: list[Range] = []
        while (kind := data[at]) != _END:
            at += 1
            if kind in (_BASE, _START_END, _START_SIZE):
                first, at = int.from_bytes(data[at : at + 8], "little"), at + 8
            else:
                first, at = uleb(data, at)
            second = 0
            if kind == _START_END:
                second, at = int.from_bytes(data[at : at + 8], "little"), at + 8
            elif kind not in (_BASE, _BASE_INDEX):
                second, at = uleb(data, at)
            if kind in (_BASE_INDEX, _START_END_INDEX, _START_SIZE_INDEX):
                first = self._indexed(top, first)
            if kind in (_BASE, _BASE_INDEX):
                base = first
            elif kind == _OFFSETS:
                ranges.append((base + first, base + second))
            elif kind == _START_END_INDEX:
                ranges.append((first, self._indexed(top, second)))
            elif kind == _START_END:
                ranges.append((first, second))
            elif kind in (_START_SIZE, _START_SIZE_INDEX):
                ranges.append((first, first + second))
            else:
                raise EntryError("a range of another kind")
        return ranges


def in_order(sequences: list[list[Row]], is_code: Callable[[int], bool]) -> list[Row]:
    """Return the rows of line tables by address, without the rows of dropped functions.

    If several sequences describe the same code (--icf), the first one is taken.
    """
    rows: list[Row] = []
    for sequence in sorted(sequences, key=lambda sequence: sequence[0][0]):
        start = sequence[0][0]
        if is_code(start) and (not rows or start >= rows[-1][0]):
            rows += sorted(sequence, key=lambda row: row[0])
    return rows


def _pairs(data: bytes, at: int, base: int) -> list[Range]:
    """Return a range list of .debug_ranges, the format up to DWARF 4."""
    ranges: list[Range] = []
    while at + _PAIR.size <= len(data):
        first, second = _PAIR.unpack_from(data, at)
        at += _PAIR.size
        if not first and not second:
            break
        if first == _MASK:
            base = second
        else:
            ranges.append((base + first, base + second))
    return ranges


def _aranges(data: bytes) -> list[tuple[int, int, int]]:
    """Return (from, to, unit) of each entry of .debug_aranges, up to the first damaged one."""
    rows: list[tuple[int, int, int]] = []
    at = 0
    while at + _HEAD.size <= len(data):
        size, version, unit, width, segment = _HEAD.unpack_from(data, at)
        end = at + 4 + size
        if not 8 <= size < 0xFFFF_FFF0 or end > len(data):
            break
        first = at + -(-_HEAD.size // _PAIR.size) * _PAIR.size
        if version == 2 and width == 8 and not segment:
            pairs = data[first : first + (end - first) // _PAIR.size * _PAIR.size]
            rows += [
                (start, start + size, unit) for start, size in _PAIR.iter_unpack(pairs) if size
            ]
        at = end
    return rows


# If a linker drops a function (--gc-sections, COMDAT), it keeps the function's lines, at address 0
# or another address without code. From there the lines may overlap other functions, so they are
# left out. Of the rest of the file, only the table that maps addresses to units is read. The DWARF
# must be 32-bit.

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
        from soscope.binfmt.dwarf.foreignlines import ForeignLines

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
