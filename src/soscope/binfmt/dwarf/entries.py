# SPDX-License-Identifier: Apache-2.0
"""Read single entries of DWARF 2 to 5 from .debug_info, without the rest of their unit.

To read whole units takes seconds. This module finds a function by the bytes of the offset of its
name. Then it reads only the entry around these bytes and the entries of the function's types, which
is fast enough for the start of a program. It reads both byte orders, addresses of 4 and 8 bytes,
and 32-bit and 64-bit DWARF. Only little-endian files are searched for names.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from soscope.binfmt.search import offsets_of, places_of
from soscope.binfmt.source import sleb, uleb
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    ByteOrder = Literal["little", "big"]


# How DWARF stores the values of attributes (DWARF 5, 7.5.6).

STRING, STRP, LINE_STRP, STRX, UDATA, SDATA, BLOCK = range(7)  # ways to read a form
REFERENCE, ABSOLUTE, IMPLICIT, PRESENT, INDIRECT, FIXED, ALT_STRP = range(7, 14)
_ADDR, _OFFSET = -1, -2  # sizes that the unit decides
FORMS = {
    0x01: (FIXED, _ADDR),  # addr
    0x03: (BLOCK, 2),
    0x04: (BLOCK, 4),
    0x05: (FIXED, 2),
    0x06: (FIXED, 4),
    0x07: (FIXED, 8),
    0x08: (STRING, 0),
    0x09: (BLOCK, 0),
    0x0A: (BLOCK, 1),
    0x0B: (FIXED, 1),
    0x0C: (FIXED, 1),
    0x0D: (SDATA, 0),
    0x0E: (STRP, _OFFSET),
    0x0F: (UDATA, 0),
    0x10: (ABSOLUTE, _OFFSET),
    0x11: (REFERENCE, 1),
    0x12: (REFERENCE, 2),
    0x13: (REFERENCE, 4),
    0x14: (REFERENCE, 8),
    0x15: (REFERENCE, 0),
    0x16: (INDIRECT, 0),
    0x17: (FIXED, _OFFSET),  # sec_offset
    0x18: (BLOCK, 0),  # exprloc
    0x19: (PRESENT, 0),
    0x1A: (STRX, 0),
    0x1B: (UDATA, 0),  # addrx
    0x1C: (FIXED, 4),  # ref_sup4, in a supplementary file
    0x1D: (ALT_STRP, _OFFSET),  # strp_sup
    0x1E: (FIXED, 16),
    0x1F: (LINE_STRP, _OFFSET),
    0x20: (FIXED, 8),  # ref_sig8
    0x21: (IMPLICIT, 0),
    0x22: (UDATA, 0),
    0x23: (UDATA, 0),
    0x24: (FIXED, 8),
    0x25: (STRX, 1),
    0x26: (STRX, 2),
    0x27: (STRX, 3),
    0x28: (STRX, 4),
    0x29: (FIXED, 1),
    0x2A: (FIXED, 2),
    0x2B: (FIXED, 3),
    0x2C: (FIXED, 4),
    0x1F01: (UDATA, 0),  # GNU_addr_index
    0x1F02: (UDATA, 0),  # GNU_str_index, of a .dwo file
    0x1F20: (FIXED, _OFFSET),  # GNU_ref_alt
    0x1F21: (ALT_STRP, _OFFSET),  # GNU_strp_alt
}
FORM_ADDR = 0x01
_SIGNATURE, _ALTERNATES = 0x20, (0x1C, 0x24, 0x1F20)  # forms that lead out of the unit
SIGNED_FORMS = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1}


# Tags and attributes that other modules use (DWARF 5, 7.5.3 and 7.5.4).
TAG_ARRAY = 0x01
TAG_CLASS = 0x02
TAG_ENUM = 0x04
TAG_PARAMETER = 0x05
TAG_MEMBER = 0x0D
TAG_POINTER = 0x0F
TAG_REFERENCE = 0x10
TAG_UNIT = 0x11
TAG_STRUCT = 0x13
TAG_SUBROUTINE_TYPE = 0x15
TAG_TYPEDEF = 0x16
TAG_UNION = 0x17
TAG_UNSPECIFIED_PARAMETERS = 0x18
TAG_INHERITANCE = 0x1C
TAG_SUBRANGE = 0x21
TAG_BASE = 0x24
TAG_CONST = 0x26
TAG_ENUMERATOR = 0x28
TAG_SUBPROGRAM = 0x2E
TAG_VARIABLE = 0x34
TAG_VOLATILE = 0x35
TAG_RESTRICT = 0x37
TAG_NAMESPACE = 0x39
TAG_UNSPECIFIED_TYPE = 0x3B
TAG_PARTIAL_UNIT = 0x3C
TAG_RVALUE_REFERENCE = 0x42
TAG_ATOMIC = 0x47
AT_NAME = 0x03
AT_BYTE_SIZE = 0x0B
AT_LOCATION = 0x02
AT_BIT_OFFSET = 0x0C
AT_STMT_LIST = 0x10
AT_LOW_PC = 0x11
AT_HIGH_PC = 0x12
AT_LANGUAGE = 0x13
AT_COMP_DIR = 0x1B
AT_CONST_VALUE = 0x1C
AT_PRODUCER = 0x25
AT_INLINE = 0x20
AT_LOWER_BOUND = 0x22
AT_PROTOTYPED = 0x27
AT_UPPER_BOUND = 0x2F
AT_ABSTRACT_ORIGIN = 0x31
AT_ARTIFICIAL = 0x34
AT_CALLING_CONVENTION = 0x36
AT_COUNT = 0x37
AT_MEMBER_LOCATION = 0x38
AT_DECL_FILE = 0x3A
AT_DECL_LINE = 0x3B
AT_DECLARATION = 0x3C
AT_ENCODING = 0x3E
AT_EXTERNAL = 0x3F
AT_SPECIFICATION = 0x47
AT_VIRTUALITY = 0x4C
AT_TYPE = 0x49
AT_RANGES = 0x55
AT_SIGNATURE = 0x69
AT_DATA_BIT_OFFSET = 0x6B
AT_BIT_SIZE = 0x0D
AT_LINKAGE_NAME = 0x6E
AT_ADDR_BASE = 0x73
AT_RNGLISTS_BASE = 0x74
AT_DWO_NAME = 0x76
AT_MIPS_LINKAGE_NAME = 0x2007
AT_GNU_VECTOR = 0x2107
AT_GNU_DWO_NAME = 0x2130
_AT_SIBLING = 0x01
_AT_STR_OFFSETS_BASE = 0x72
_NAMES = (AT_NAME, AT_LINKAGE_NAME, AT_MIPS_LINKAGE_NAME)

_TYPE_UNITS, _SPLIT_UNITS = (2, 6), (4, 5)  # DW_UT_*
_FIXED = (FIXED, ABSOLUTE, STRP, LINE_STRP, ALT_STRP)
_MAX_UNITS = 1 << 20
_MAX_ATTRIBUTES = 256
_BEFORE = 48  # bytes of an entry before its name, at most
_MOST_WALKED = 1 << 17  # entries that a search for indexed names walks over, at most
_UNIT = 16  # the cost of a look at a unit, counted as entries
_MOST_STEPS = 1 << 16  # entries of one unit that are walked over, at most
_U16 = Struct("<H")
_U32 = Struct("<I")
_U64 = Struct("<Q")

# (attribute, form, value of an implicit constant)
_Abbreviation = tuple[int, bool, list[tuple[int, int, int]]]


class EntryError(Exception):
    """The bytes are not an entry, or are one of a kind that this module does not read."""


class Unit(Record):
    """One unit: its start and end, its first entry, its version, its abbreviations.

    `width` is the size of an address, `offset_size` of an offset, both in bytes. `forms` are FORMS
    with these sizes. `entries` has the section that the unit is in.
    """

    entries: Entries
    at: int
    end: int
    first: int
    version: int
    width: int
    offset_size: int
    forms: dict[int, tuple[int, int]]
    abbreviations: dict[int, _Abbreviation] = fresh(dict)
    skips: dict[int, tuple[bool, int, int]] = fresh(dict)
    path: list[int] = fresh(list)  # offsets of the entries walked over last
    str_offsets: int = 8
    top: DwarfEntry | None = None


class DwarfEntry:
    """One entry: `values` are its attributes as numbers or bytes, `forms` the DW_FORM_ of each."""

    __slots__ = ("at", "behind", "forms", "has_children", "tag", "unit", "values")

    def __init__(self, unit: Unit, at: int, tag: int, *, has_children: bool) -> None:
        self.unit = unit
        self.at = at
        self.tag = tag
        self.has_children = has_children
        self.values: dict[int, int | bytes] = {}
        self.forms: dict[int, int] = {}
        self.behind = at

    def number(self, attribute: int) -> int | None:
        """Return an attribute that is a number; None if it is missing or not a number."""
        value = self.values.get(attribute)
        return value if isinstance(value, int) else None

    def signed(self, attribute: int) -> int | None:
        """Return an attribute as a signed number, if its form does not tell the sign."""
        value = self.number(attribute)
        size = SIGNED_FORMS.get(self.forms.get(attribute, 0))
        if value is None or size is None:
            return value
        return value - (1 << 8 * size) if value >> (8 * size - 1) else value

    @property
    def name(self) -> str:
        """The value of DW_AT_name, "" if there is none."""
        value = self.values.get(AT_NAME)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""

    @property
    def linkage_name(self) -> str:
        """The name that linkers use, "" if it does not differ from `name`."""
        for attribute in (AT_LINKAGE_NAME, AT_MIPS_LINKAGE_NAME):
            value = self.values.get(attribute)
            if isinstance(value, bytes):
                return value.decode("utf-8", "replace")
        return ""


class Entries:
    """All entries of one file, given the contents of its sections; missing sections are empty.

    `order` is the byte order. `alternate` has the entries of the file that .gnu_debugaltlink names.
    """

    def __init__(
        self,
        info: bytes,
        abbreviations: bytes,
        strings: bytes,
        line_strings: bytes = b"",
        string_offsets: bytes = b"",
        lines: bytes = b"",
        *,
        order: ByteOrder = "little",
        alternate: Entries | None = None,
        types: bytes = b"",
        of: Entries | None = None,
    ) -> None:
        """If `info` is a .debug_types, `of` has the entries of the .debug_info beside it."""
        self.info = info
        self.strings = strings
        self.order: ByteOrder = order
        self.alternate = alternate
        self.lines = lines
        self.line_strings = line_strings
        self._of = of
        self._files: dict[int, list[str]] = {}
        self._abbreviations = abbreviations
        self._string_offsets = string_offsets
        self._tables: dict[int, dict[int, _Abbreviation]] = {}
        self._units: dict[int, Unit] = {}
        self._signatures: dict[int, tuple[Entries, int]] | None = None
        self._types = (
            Entries(types, abbreviations, strings, line_strings, order=order, of=self)
            if types
            else None
        )
        self.starts = self._headers()  # offsets of its units
        self.is_cut = False

    @property
    def has_indexed_strings(self) -> bool:
        """Return whether units may give names by an index into .debug_str_offsets."""
        return bool(self._string_offsets)

    @property
    def is_damaged(self) -> bool:
        """Return whether there is something that is no unit behind the last unit."""
        return any(self.info[self._end :])

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self.info[at : at + size], self.order)

    def _headers(self) -> list[int]:
        starts: list[int] = []
        at, info = 0, self.info
        while at + 11 <= len(info) and len(starts) < _MAX_UNITS:
            _, behind, end = initial_length(info, at, self.order)
            if not end - behind >= 7 or end > len(info):
                break
            starts.append(at)
            at = end
        self._end = at
        return starts

    def unit_at(self, at: int) -> Unit:
        """Return the unit that holds an offset. Raises EntryError."""
        index = bisect_right(self.starts, at) - 1
        if index < 0 or at >= self._end:
            raise EntryError("outside of all units")
        unit = self.unit_from(self.starts[index])
        if at < unit.first or at >= unit.end:
            raise EntryError("outside of a unit's entries")
        return unit

    def unit_from(self, start: int) -> Unit:
        """Return the unit that begins at an offset, one of `starts`. Raises EntryError."""
        unit = self._units.get(start)
        if unit is None:
            unit = self._units[start] = self._read_unit(start)
        return unit

    def _read_unit(self, at: int) -> Unit:
        offset_size, first, end = initial_length(self.info, at, self.order)
        version = self._number(first, 2)
        first += 2
        kind = 0
        if version == 5:
            kind, width = self.info[first : first + 2]
            first += 2
        table, first = self._number(first, offset_size), first + offset_size
        if 2 <= version <= 4:
            width, first = self.info[first], first + 1
        elif version != 5:
            raise EntryError(f"DWARF of version {version}")
        if kind in _TYPE_UNITS or self._of is not None:
            first += 8 + offset_size
        elif kind in _SPLIT_UNITS:
            first += 8
        if width not in (4, 8) or first >= end or kind > max(_TYPE_UNITS):
            raise EntryError("a unit of another kind")
        forms = _forms_of(width, offset_size, version)
        unit = Unit(self, at, end, first, version, width, offset_size, forms)
        unit.abbreviations = self._table(table)
        if version == 5:
            unit.str_offsets = 8 if offset_size == 4 else 16  # also while the base is read
            base = self._read(unit, first)[0].number(_AT_STR_OFFSETS_BASE)
            unit.str_offsets = unit.str_offsets if base is None else base
        return unit

    def _type_at(self, signature: int) -> DwarfEntry:
        """Return the type that a type unit describes (DWARF 5, 3.1.4). Raises EntryError."""
        if self._signatures is None:
            self._signatures = {}
            for entries in [self] if self._types is None else [self, self._types]:
                for start in entries.starts:
                    size, behind, _ = initial_length(entries.info, start, self.order)
                    is_newer = entries._number(behind, 2) == 5
                    if is_newer and entries.info[behind + 2] not in _TYPE_UNITS:
                        continue
                    if is_newer or entries is self._types:
                        at = behind + (4 if is_newer else 3) + size
                        number = entries._number(at, 8)
                        place = start + entries._number(at + 8, size)
                        self._signatures[number] = entries, place
        if signature not in self._signatures:
            raise EntryError("a type of another file")
        entries, place = self._signatures[signature]
        return entries.at(place)

    def _table(self, at: int) -> dict[int, _Abbreviation]:
        known = self._tables.get(at)
        if known is not None:
            return known
        start = at
        data = self._abbreviations
        table: dict[int, _Abbreviation] = {}
        try:
            while True:
                code, at = uleb(data, at)
                if not code:
                    break
                tag, at = uleb(data, at)
                has_children = bool(data[at])
                at += 1
                attributes: list[tuple[int, int, int]] = []
                while True:
                    name, at = uleb(data, at)
                    form, at = uleb(data, at)
                    constant = 0
                    if form == 0x21:
                        constant, at = sleb(data, at)
                    if not name and not form:
                        break
                    attributes.append((name, form, constant))
                    if len(attributes) > _MAX_ATTRIBUTES:
                        raise EntryError("an abbreviation of too many attributes")
                table[code] = (tag, has_children, attributes)
        except IndexError:
            raise EntryError("abbreviations are cut") from None
        self._tables[start] = table
        return table

    def _read(self, unit: Unit, at: int, watch: int = -1) -> tuple[DwarfEntry, bool]:
        """Read an entry; also return whether one of its names is stored at offset `watch`."""
        start, info = at, self.info
        try:
            code, at = uleb(info, at)
            known = unit.abbreviations.get(code)
            if known is None:
                raise EntryError("no such abbreviation")
            tag, has_children, attributes = known
            entry = DwarfEntry(unit, start, tag, has_children=has_children)
            is_watched = False
            for name, form, constant in attributes:
                is_watched |= at == watch and name in _NAMES
                entry.values[name], at = self._value(unit, form, constant, at)
                entry.forms[name] = form
        except (IndexError, ValueError) as error:
            raise EntryError(str(error)) from None
        except KeyError:
            raise EntryError("a form that is not known") from None
        if at > unit.end:
            raise EntryError("an entry is cut")
        entry.behind = at
        return entry, is_watched

    def _value(self, unit: Unit, form: int, constant: int, at: int) -> tuple[int | bytes, int]:
        info, order = self.info, self.order
        how, size = unit.forms[form]
        if how in (FIXED, ABSOLUTE):
            return int.from_bytes(info[at : at + size], order), at + size
        if how == STRP:
            offset = int.from_bytes(info[at : at + size], order)
            return _text(self.strings, offset), at + size
        if how == PRESENT:
            return 1, at
        if how == IMPLICIT:
            return constant, at
        if how == REFERENCE:
            if size:
                return unit.at + int.from_bytes(info[at : at + size], order), at + size
            number, at = uleb(info, at)
            return unit.at + number, at
        if how == UDATA:
            return uleb(info, at)
        if how == SDATA:
            return sleb(info, at)
        if how == STRING:
            end = info.index(0, at)
            return info[at:end], end + 1
        if how == LINE_STRP:
            offset = int.from_bytes(info[at : at + size], order)
            return _text(self.line_strings, offset), at + size
        if how == ALT_STRP:
            offset = int.from_bytes(info[at : at + size], order)
            other = self.alternate
            return offset if other is None else _text(other.strings, offset), at + size
        if how == BLOCK:
            if size:
                length = int.from_bytes(info[at : at + size], order)
                at += size
            else:
                length, at = uleb(info, at)
            return info[at : at + length], at + length
        if how == STRX:
            if size:
                index = int.from_bytes(info[at : at + size], order)
                at += size
            else:
                index, at = uleb(info, at)
            size = unit.offset_size
            place = unit.str_offsets + size * index
            offset = int.from_bytes(self._string_offsets[place : place + size], order)
            return _text(self.strings, offset), at
        form, at = uleb(info, at)  # DW_FORM_indirect
        if form == 0x16:
            raise EntryError("indirect")
        return self._value(unit, form, 0, at)

    def at(self, offset: int) -> DwarfEntry:
        """Return the entry at an offset of .debug_info. Raises EntryError."""
        return self._read(self.unit_at(offset), offset)[0]

    def top_at(self, start: int) -> DwarfEntry:
        """Return the top entry of the unit at an offset. Raises EntryError."""
        return self.top(self.unit_from(start))

    def top(self, unit: Unit) -> DwarfEntry:
        """Return the top entry of a unit. Raises EntryError."""
        if unit.top is None:
            unit.top = unit.entries._read(unit, unit.first)[0]
        return unit.top

    def led(self, entry: DwarfEntry, attribute: int = AT_TYPE) -> DwarfEntry | None:
        """Return the entry that an attribute refers to, None if there is no such attribute.

        Raises EntryError.
        """
        value = entry.values.get(attribute)
        if value is None:
            return None
        form, entries = entry.forms[attribute], entry.unit.entries
        main = entries._of or entries
        if form == 0x10:  # an offset of .debug_info
            entries = main
        elif form in _ALTERNATES and entries.alternate is not None:
            entries = entries.alternate
        elif form in _ALTERNATES:
            raise EntryError("an entry of another file")
        if not isinstance(value, int):
            raise EntryError("a reference that is no number")
        if form == _SIGNATURE:
            return main._type_at(value)
        return entries.at(value)

    def place(self, entry: DwarfEntry) -> tuple[str, int] | None:
        """Return (file, line) of the declaration of an entry, if known."""
        line, number = entry.number(AT_DECL_LINE), entry.number(AT_DECL_FILE)
        program = self.top(entry.unit).number(AT_STMT_LIST)
        if line is None or number is None or program is None or not self.lines:
            return None
        if program not in self._files:
            self._files[program] = [name for name, _ in LineHead(self, program).files]
        files = self._files[program]
        return (files[number], line) if 0 <= number < len(files) and files[number] else None

    def children(self, entry: DwarfEntry) -> list[DwarfEntry]:
        """Return the entries directly below an entry. Raises EntryError."""
        return list(self.each_child(entry))

    def each_child(
        self, entry: DwarfEntry, tags: frozenset[int] | None = None
    ) -> Iterator[DwarfEntry]:
        """Yield the entries directly below an entry, each when it is asked for. Raises EntryError.

        Entries of other tags than `tags` are passed over, and so is what is below the children:
        that is faster than to read them.
        """
        unit, at = entry.unit, entry.behind
        entries = unit.entries
        while entry.has_children:
            if at >= unit.end:
                raise EntryError("entries are cut")
            if not entries.info[at]:
                return
            try:
                known = unit.abbreviations.get(uleb(entries.info, at)[0])
                if known is None or tags is None or known[0] in tags:
                    yield entries._read(unit, at)[0]
                at = entries._past(unit, at)
            except IndexError as error:
                raise EntryError(str(error)) from None

    def _past(self, unit: Unit, at: int) -> int:
        """Return the offset behind an entry and all entries below it. Raises EntryError."""
        depth = 0
        while True:
            if at >= unit.end:
                raise EntryError("entries are cut")
            if not self.info[at]:
                at, depth = at + 1, depth - 1
            else:
                has_children, beside, behind = self._skip(unit, at)
                if has_children and behind < beside <= unit.end:
                    at = beside
                else:
                    at, depth = behind, depth + has_children
            if depth <= 0:
                return at

    # ---- look-up by name

    def functions(self, names: set[bytes]) -> dict[bytes, list[DwarfEntry]]:
        """Return the subprograms that have one of these names or linkage names, by name.

        Sets `is_cut` if the search for names that are given by an index (DW_FORM_strx) takes too
        long. Then some of these subprograms are missing.
        """
        needles: dict[bytes, bytes] = {}
        for offset, name in offsets_of(self.strings, names):
            needles[_U32.pack(offset)] = name
        for name in names:
            if len(name) < 4:  # shorter than an offset: the entry holds the name itself
                needles[name + b"\0"] = name
        functions: dict[bytes, list[DwarfEntry]] = {}
        for at, needle in places_of(self.info, needles):
            entry = self._around(at)
            if entry is not None:
                functions.setdefault(needles[needle], []).append(entry)
        for name, entry in self._indexed(names, needles):
            functions.setdefault(name, []).append(entry)
        return functions

    def _indexed(
        self, names: set[bytes], needles: Iterable[bytes]
    ) -> Iterator[tuple[bytes, DwarfEntry]]:
        """Yield the subprograms of these names whose entries give the name by an index."""
        if not self._string_offsets:
            return

        offsets = [_U32.unpack(needle)[0] for needle in needles if len(needle) == 4]
        tables = tables_with(self._string_offsets, offsets)
        left = _MOST_WALKED
        for start in self.starts if tables else ():
            try:
                unit = self.unit_from(start)
                left -= _UNIT
                if unit.version != 5 or unit.str_offsets not in tables:
                    continue
                at = unit.first
                while at < unit.end and left > 0:
                    left -= 1
                    code, behind = uleb(self.info, at)
                    known = unit.abbreviations.get(code)
                    if known is not None and known[0] == TAG_SUBPROGRAM:
                        entry = self._read(unit, at)[0]
                        behind = entry.behind
                        name = _indexed_name(entry, names)
                        if name is not None:
                            yield name, entry
                    elif code:
                        behind = self._skip(unit, at)[2]
                    at = behind
            except (EntryError, IndexError):
                continue  # skip a damaged unit, not the others
            if left <= 0:
                self.is_cut = True
                return

    def _around(self, at: int) -> DwarfEntry | None:
        """Return the subprogram whose name is stored at an offset, None if there is none."""
        for start in range(at - 1, max(at - _BEFORE, 0), -1):
            try:
                unit = self.unit_at(start)
                known = unit.abbreviations.get(uleb(self.info, start)[0])
                if known is None or known[0] != TAG_SUBPROGRAM:
                    continue
                entry, is_there = self._read(unit, start, at)
                if is_there and self._is_reached(unit, start):
                    return entry
            except (EntryError, IndexError):
                continue  # the same as above
        return None

    def _is_reached(self, unit: Unit, wanted: int) -> bool:
        """Walk from the beginning of a unit; return whether an entry begins at offset `wanted`.

        The walk is needed because bytes in the middle of an entry may look like an entry.
        """
        path = unit.path
        index = bisect_right(path, wanted) - 1
        at = path[index] if index >= 0 else unit.first
        del path[index + 1 :]
        for _ in range(_MOST_STEPS):
            if at >= wanted:
                return at == wanted
            if not self.info[at]:
                at += 1
                continue
            _, beside, behind = self._skip(unit, at)
            at = beside if beside and beside <= wanted else behind
            path.append(at)
        return False

    def _skip(self, unit: Unit, at: int) -> tuple[bool, int, int]:
        """Return (has children, offset of the sibling or 0, offset behind the entry)."""
        code, behind = uleb(self.info, at)
        skips = unit.skips.get(code)
        if skips is None:
            skips = unit.skips[code] = _skips(unit.abbreviations.get(code), unit.forms)
        has_children, size, place = skips
        if size >= 0:
            beside = 0
            if place >= 0:
                beside = unit.at + self._number(behind + place, 4)
            behind += size
        else:
            entry = self._read(unit, at)[0]
            beside, behind = entry.number(_AT_SIBLING) or 0, entry.behind
        if has_children and beside <= at:
            beside = 0
        return has_children, beside, behind


def _indexed_name(entry: DwarfEntry, names: set[bytes]) -> bytes | None:
    """Return the name among `names` that an entry gives by an index, None if there is none."""
    for attribute in _NAMES:
        value = entry.values.get(attribute)
        is_indexed = entry.unit.forms.get(entry.forms.get(attribute, 0), (STRING, 0))[0] == STRX
        if is_indexed and isinstance(value, bytes) and value in names:
            return value
    return None


def _skips(of: _Abbreviation | None, forms: dict[int, tuple[int, int]]) -> tuple[bool, int, int]:
    """Return what `Entries._skip` needs of an abbreviation; the size is -1 if it varies."""
    if of is None:
        raise EntryError("no such abbreviation")
    _, has_children, attributes = of
    size, place = 0, -1
    for name, form, _ in attributes:
        how, width = forms.get(form, (BLOCK, 0))
        if name == _AT_SIBLING and form == 0x13:
            place = size
        if how in (PRESENT, IMPLICIT):
            continue
        if how not in _FIXED and not (how in (REFERENCE, STRX) and width):
            return has_children, -1, -1
        size += width
    return has_children, size, place


_known_forms: dict[tuple[int, int, int], dict[int, tuple[int, int]]] = {}


def _forms_of(width: int, offset_size: int, version: int) -> dict[int, tuple[int, int]]:
    """Return FORMS for units of a kind. DWARF 2 has references of the size of an address."""
    kind = width, offset_size, version
    if kind not in _known_forms:
        sizes = {_ADDR: width, _OFFSET: offset_size}
        forms = {form: (how, sizes.get(size, size)) for form, (how, size) in FORMS.items()}
        if version == 2:
            forms[0x10] = ABSOLUTE, width
        _known_forms[kind] = forms
    return _known_forms[kind]


def initial_length(data: bytes, at: int, order: ByteOrder) -> tuple[int, int, int]:
    """Return (size of offsets, offset behind the length, end) of a unit (DWARF 5, 7.4).

    A length that is reserved or cut ends behind `data`.
    """
    length, size, at = int.from_bytes(data[at : at + 4], order), 4, at + 4
    if length == 0xFFFF_FFFF:
        length, size, at = int.from_bytes(data[at : at + 8], order), 8, at + 8
    elif length >= 0xFFFF_FFF0:
        length = len(data) + 1
    return size, at, at + length


def _text(strings: bytes, at: int) -> bytes:
    end = strings.find(b"\0", at)
    if end < 0:
        raise EntryError("a string outside of its section")
    return strings[at:end]


# Names of source files, in the header of a line number program (DWARF 5, 6.2.4).

_PATH, _FOLDER = 1, 2  # DW_LNCT_path, DW_LNCT_directory_index
_MOST = 1 << 16  # files of a unit, at most


class LineHead:
    """The header of a line number program; its opcodes are at [first, end).

    `step` is the length of the shortest instruction. `operands` has the number of operands of
    each standard opcode.
    """

    __slots__ = (
        "end",
        "files",
        "first",
        "folders",
        "line_base",
        "line_range",
        "opcode_base",
        "operands",
        "step",
        "version",
    )

    def __init__(self, entries: Entries, at: int) -> None:
        """Read the header at `at` in .debug_line. Raises EntryError."""
        try:
            self._read(entries, at)
        except (IndexError, KeyError, ValueError) as error:
            raise EntryError(str(error)) from None

    def _read(self, entries: Entries, at: int) -> None:
        lines, order = entries.lines, entries.order
        size, at, self.end = initial_length(lines, at, order)
        self.version = int.from_bytes(lines[at : at + 2], order)
        if not 2 <= self.version <= 5 or self.end > len(lines):
            raise EntryError(f"a line number program of version {self.version}")
        at += 4 if self.version == 5 else 2  # skip the sizes of addresses and segments
        self.first = at + size + int.from_bytes(lines[at : at + size], order)
        at += size
        self.step = lines[at]
        if self.version >= 4:
            if lines[at + 1] > 1:
                raise EntryError("instructions in bundles")
            at += 1
        self.line_base, self.line_range, self.opcode_base = lines[at + 2 : at + 5]
        self.line_base -= (self.line_base & 0x80) << 1
        if not self.line_range or not self.opcode_base:
            raise EntryError("a line number program without opcodes")
        at += 5
        self.operands = lines[at : at + self.opcode_base - 1]
        at += self.opcode_base - 1
        self.folders: list[str] = []
        self.files: list[tuple[str, int]] = []  # names with the numbers of their folders
        if self.version == 5:
            forms = _forms_of(8, size, 5)
            folders, at = _file_table(entries, at, forms)
            self.folders = [name for name, _ in folders]
            self.files, _ = _file_table(entries, at, forms)
        else:
            self._read_older(lines, at)

    def _read_older(self, lines: bytes, at: int) -> None:
        self.folders.append("")  # numbers of folders and files begin at 1
        while lines[at]:
            end = lines.index(0, at)
            self.folders.append(lines[at:end].decode("utf-8", "surrogateescape"))
            at = end + 1
        at += 1
        self.files.append(("", 0))
        while lines[at] and len(self.files) < _MOST:
            end = lines.index(0, at)
            name = lines[at:end].decode("utf-8", "surrogateescape")
            folder, at = uleb(lines, end + 1)
            self.files.append((name, folder))
            for _ in range(2):
                _, at = uleb(lines, at)

    def paths(self, top: str) -> list[str]:
        """Return the paths of the files; `top` is the folder of the unit."""
        paths: list[str] = []
        for name, number in self.files:
            folder = self.folders[number] if number < len(self.folders) else ""
            path = name
            for prefix in (folder, top):
                if prefix and path and not path.startswith("/"):
                    path = f"{prefix}/{path}"
            paths.append(path)
        return paths


def _file_table(
    entries: Entries, at: int, forms: dict[int, tuple[int, int]]
) -> tuple[list[tuple[str, int]], int]:
    """Return names, each with the number of a folder, and the offset behind the table."""
    lines = entries.lines
    formats = []
    count, at = lines[at], at + 1
    for _ in range(count):
        kind, at = uleb(lines, at)
        form, at = uleb(lines, at)
        formats.append((kind, form))
    count, at = uleb(lines, at)
    names: list[tuple[str, int]] = []
    for _ in range(min(count, _MOST)):
        name, folder = b"", 0
        for kind, form in formats:
            value, at = _file_value(entries, at, *forms[form])
            if kind == _PATH and isinstance(value, bytes):
                name = value
            elif kind == _FOLDER and isinstance(value, int):
                folder = value
        names.append((name.decode("utf-8", "surrogateescape"), folder))
    return names, at


def _file_value(entries: Entries, at: int, how: int, size: int) -> tuple[int | bytes, int]:
    """Return a value of a table of files, and the offset behind it."""
    lines = entries.lines
    if how == STRING:
        end = lines.index(0, at)
        return lines[at:end], end + 1
    if how == UDATA:
        return uleb(lines, at)
    if how == BLOCK and not size:
        length, at = uleb(lines, at)
        return lines[at : at + length], at + length
    if how not in (STRP, LINE_STRP, FIXED):
        raise EntryError("a form in a line number program that is not known")
    number = int.from_bytes(lines[at : at + size], entries.order)
    if how == FIXED:
        return number, at + size
    return _text(entries.strings if how == STRP else entries.line_strings, number), at + size


# Find units of DWARF 5 that give names by an index into .debug_str_offsets, as clang's do.
#
# An index has a byte or two, and such bytes are everywhere. So the offset of the name leads only to
# the units that may use it, and their entries are all read. DWARF 5, 7.26.

_HEADER = 8
_VERSION = 5
_MOST_OFFSETS = 1 << 20  # tables (contributions) of the section, at most


def tables_with(string_offsets: bytes, offsets: Iterable[int]) -> set[int]:
    """Return the bases (DW_AT_str_offsets_base) of the tables that have one of these offsets.

    `string_offsets` is the contents of .debug_str_offsets, `offsets` are offsets of names in
    .debug_str.
    """
    bases = _bases(string_offsets)
    needles = {_U32.pack(offset): b"" for offset in offsets}
    if not bases or not needles:
        return set()
    tables = set()
    for place, _ in places_of(string_offsets, needles):
        base = bases[max(bisect_right(bases, place) - 1, 0)]
        if place >= base and (place - base) % 4 == 0:
            tables.add(base)
    return tables


def _bases(data: bytes) -> list[int]:
    bases: list[int] = []
    at = 0
    while at + _HEADER <= len(data) and len(bases) < _MOST_OFFSETS:
        length, version = _U32.unpack_from(data, at)[0], data[at + 4]
        if version != _VERSION or not 4 <= length <= len(data) - at - 4:
            break  # 64-bit DWARF, or damaged
        bases.append(at + _HEADER)
        at += 4 + length
    return bases
