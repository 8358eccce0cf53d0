# SPDX-License-Identifier: Apache-2.0
"""Files and lines of code from the line tables of DWARF, and the unit of an address.

DWARF 2 to 5, of all machines. A unit is read when a caller first asks for one of its addresses.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from soscope.binfmt.dwarf import entries as d
from soscope.binfmt.dwarf.entries import DwarfEntry, Entries, EntryError, LineHead
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import uleb
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from soscope.binfmt.elf.reader import Encoding

    Row = TypeVar("Row", bound=tuple[int, Any] | tuple[int, int, int])


# Find the unit of an address, by .debug_aranges or else by the ranges in the units' entries.
#
# DWARF 5, 6.1.2 and 2.17. Compilers may write no .debug_aranges (clang), or only for some of the
# units.

_FORM_RANGE_INDEX = 0x23
_FORMS_ADDR_INDEX = (0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01)
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
        rows = _aranges(sections.get(".debug_aranges", b""), entries.order)
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
                    for begin, end in self.of(top)
                    if begin < end and self._is_code(begin)
                ]
            except (EntryError, IndexError, ValueError):
                continue  # a damaged unit, or one of another kind
        return rows

    def of(self, entry: DwarfEntry) -> list[Range]:
        """Return the code ranges of a unit or function, the one with its entry first.

        Raises EntryError, IndexError.
        """
        low, high = self.addr(entry, d.AT_LOW_PC), entry.number(d.AT_HIGH_PC)
        if low is not None and high is not None:
            if entry.forms[d.AT_HIGH_PC] == d.FORM_ADDR:
                return [(low, high)]
            if entry.forms[d.AT_HIGH_PC] in _FORMS_ADDR_INDEX:
                return [(low, self._indexed(entry, high))]
            return [(low, low + high)]
        ranges = entry.number(d.AT_RANGES)
        if ranges is None:
            return []
        base = self.addr(self._entries.top(entry.unit), d.AT_LOW_PC) or 0
        if entry.unit.version >= 5:
            return self._of_list(entry, ranges, base)
        data, width = self._sections.get(".debug_ranges", b""), entry.unit.width
        return _pairs(data, ranges, base, width, self._entries.order)

    def addr(self, entry: DwarfEntry, attribute: int) -> int | None:
        """Return an attribute that is an address, None if there is none. Raises EntryError."""
        value = entry.number(attribute)
        if value is not None and entry.forms[attribute] in _FORMS_ADDR_INDEX:
            return self._indexed(entry, value)
        return value

    def variable(self, entry: DwarfEntry) -> int | None:
        """Return the address of a variable with a fixed address, None for any other.

        Raises EntryError, IndexError.
        """
        code = entry.values.get(d.AT_LOCATION)
        if not isinstance(code, bytes) or not code:
            return None
        if code[0] == _OP_ADDR and len(code) == 1 + entry.unit.width:
            return int.from_bytes(code[1:], self._entries.order)
        if code[0] in _OPS_ADDR_INDEX:
            index, behind = uleb(code, 1)
            return self._indexed(entry, index) if behind == len(code) else None
        return None

    def _base(self, entry: DwarfEntry, attribute: int, default: int) -> int:
        base = self._entries.top(entry.unit).number(attribute)
        return (default if entry.unit.offset_size == 4 else default + 8) if base is None else base

    def _indexed(self, entry: DwarfEntry, index: int) -> int:
        width = entry.unit.width
        at = self._base(entry, d.AT_ADDR_BASE, 8) + width * index
        data = self._sections.get(".debug_addr", b"")[at : at + width]
        if len(data) < width:
            raise EntryError("an address outside of its section")
        return int.from_bytes(data, self._entries.order)

    def _of_list(self, entry: DwarfEntry, at: int, base: int) -> list[Range]:
        data, order = self._sections.get(".debug_rnglists", b""), self._entries.order
        width, size = entry.unit.width, entry.unit.offset_size
        if entry.forms[d.AT_RANGES] == _FORM_RANGE_INDEX:
            first = self._base(entry, d.AT_RNGLISTS_BASE, 12)
            at = first + int.from_bytes(data[first + size * at :][:size], order)
        ranges: list[Range] = []
        while (kind := data[at]) != _END:
            at += 1
            if kind in (_BASE, _START_END, _START_SIZE):
                first, at = int.from_bytes(data[at : at + width], order), at + width
            else:
                first, at = uleb(data, at)
            second = 0
            if kind == _START_END:
                second, at = int.from_bytes(data[at : at + width], order), at + width
            elif kind not in (_BASE, _BASE_INDEX):
                second, at = uleb(data, at)
            if kind in (_BASE_INDEX, _START_END_INDEX, _START_SIZE_INDEX):
                first = self._indexed(entry, first)
            if kind in (_BASE, _BASE_INDEX):
                base = first
            elif kind == _OFFSETS:
                ranges.append((base + first, base + second))
            elif kind == _START_END_INDEX:
                ranges.append((first, self._indexed(entry, second)))
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


def _pairs(data: bytes, at: int, base: int, width: int, order: d.ByteOrder) -> list[Range]:
    """Return a range list of .debug_ranges, the format up to DWARF 4."""
    ranges: list[Range] = []
    while at + 2 * width <= len(data):
        first = int.from_bytes(data[at : at + width], order)
        second = int.from_bytes(data[at + width : at + 2 * width], order)
        at += 2 * width
        if not first and not second:
            break
        if first == (1 << 8 * width) - 1:
            base = second
        else:
            ranges.append((base + first, base + second))
    return ranges


def _aranges(data: bytes, order: d.ByteOrder) -> list[tuple[int, int, int]]:
    """Return (from, to, unit) of each entry of .debug_aranges, up to the first damaged one."""
    rows: list[tuple[int, int, int]] = []
    at = 0
    while at + 12 <= len(data):
        offset_size, first, end = d.initial_length(data, at, order)
        if end > len(data) or end < first + offset_size + 4:
            break
        version = int.from_bytes(data[first : first + 2], order)
        unit = int.from_bytes(data[first + 2 : first + 2 + offset_size], order)
        width, segment = data[first + 2 + offset_size : first + 4 + offset_size]
        if version == 2 and width in (4, 8) and not segment:
            place = first + 4 + offset_size
            place += (at - place) % (2 * width)
            words = Struct(f"{'<' if order == 'little' else '>'}{'II' if width == 4 else 'QQ'}")
            pairs = data[place : place + max(end - place, 0) // words.size * words.size]
            rows += [
                (start, start + size, unit) for start, size in words.iter_unpack(pairs) if size
            ]
        at = end
    return rows


# If a linker drops a function (--gc-sections, COMDAT), it keeps the function's lines, at address 0
# or another address without code. From there the lines may overlap other functions, so they are
# left out. Of the rest of the file, only the table that maps addresses to units is read.

Place = tuple[str, int] | None
_Rows = tuple[list[int], list[Place]]
_Row = tuple[int, int, int]  # address, file, line; the file is _NO_FILE at the end of a sequence
_NO_LINES: _Rows = ([], [])
_NO_FILE = -1
_OP_ADDR, _OPS_ADDR_INDEX = 0x03, (0xA1, 0xFB)  # DW_OP_addr, _addrx and _GNU_addr_index
_MOST = 1 << 29  # bytes of all sections, at most
OF_ENTRIES = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_line",
)
OF_RANGES = (".debug_aranges", ".debug_ranges", ".debug_rnglists", ".debug_addr")

# Opcodes of line number programs (DWARF 5, 6.2.5), standard and extended ones.
_EXTENDED, _COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = range(5)
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


class DwarfLines:
    """The lines of a file; a file without DWARF has none."""

    __slots__ = ("_entries", "_is_code", "_ranges", "_units")

    def __init__(self, image: ElfImage) -> None:
        self._units: dict[int, _Rows] = {}
        self._entries: Entries | None = None
        try:
            sections = Sections.read(image)
            if image.header is None or not sections.has_debug(".debug_info", ".debug_line"):
                return
            coding = image.header.encoding
            known = sections.unpacked_all(OF_ENTRIES + OF_RANGES, coding, _MOST)
        except (FormatError, OSError):
            return
        if known is not None:  # else it is packed in an unknown way
            self._is_code = sections.is_code
            self._entries = entries_of(known, coding)
            self._ranges = UnitRanges(self._entries, known, self._is_code)

    def at(self, vaddr: int) -> tuple[str, int] | None:
        """Return (file, line) of link-time address `vaddr`, None if they are not known."""
        if self._entries is None:
            return None
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
        program, folder = top.number(d.AT_STMT_LIST), top.values.get(d.AT_COMP_DIR, b"")
        if program is None:
            return _NO_LINES
        head = LineHead(entries, program)
        paths = head.paths(
            folder.decode("utf-8", "surrogateescape") if isinstance(folder, bytes) else ""
        )
        places: dict[tuple[int, int], Place] = {}
        rows = in_order(_sequences(entries, head), self._is_code)
        for _, file, line in rows:
            if (file, line) not in places:
                is_known = line and 0 <= file < len(paths)
                places[file, line] = (paths[file], line) if is_known else None
        return [addr for addr, _, _ in rows], [places[file, line] for _, file, line in rows]


def entries_of(
    contents: dict[str, bytes], coding: Encoding, alternate: Entries | None = None
) -> Entries:
    """Return the entries of a file, given the contents of its sections."""
    return Entries(
        *(contents[name] for name in OF_ENTRIES),
        order=coding.byteorder,
        alternate=alternate,
        types=contents.get(".debug_types", b""),
    )


def _sequences(entries: Entries, head: LineHead) -> list[list[_Row]]:
    """Return the sequences of a line program; the last row of each is its end."""
    sequences: list[list[_Row]] = []
    rows: list[_Row] = []
    data, order = entries.lines, entries.order
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
            addr += int.from_bytes(data[at : at + 2], order)
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
                addr = int.from_bytes(data[at + 1 : at + size], order)
            at += size
        else:
            for _ in range(head.operands[opcode - 1]):
                _, at = uleb(data, at)
    return sequences
