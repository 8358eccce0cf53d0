# SPDX-License-Identifier: Apache-2.0
"""Find the unit of an address, by .debug_aranges or else by the ranges in the units' entries.

DWARF 5, 6.1.2 and 2.17. Compilers may write no .debug_aranges (clang), or only for some of the
units.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from soscope.binfmt.dwarfentries import DwarfEntry, Entries, EntryError, uleb

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Row = TypeVar("Row", bound=tuple[int, Any] | tuple[int, int, int])


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
