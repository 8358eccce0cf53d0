# SPDX-License-Identifier: Apache-2.0
"""A whole symbol table: .symtab, or a .dynsym that is read at once.

The bytes stay bytes. One name is found by searching for it, in milliseconds among 100,000s of
symbols; nothing is decoded that is not asked for.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.longnames import SHORT, LongNames
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Section, Sections
from soscope.binfmt.elf.symbols import SymbolTable
from soscope.binfmt.elf.versions import Versions
from soscope.binfmt.source import ByteSource, broken, take
from soscope.errors import FormatError

_MAX_REASONS = 20
_MAX_TABLE = 1 << 30
_FEW = 32  # names that are searched for; for more there is an index
_NO_NAMES = (c.STT_SECTION, c.STT_FILE)
_DECODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # os.fsdecode's


class ArraySymbol:
    """One symbol of an array. `value` is a link-time address, or a number for SHN_ABS.

    Of names like `name@VERSION`, as link editors write them into .symtab, `name` is the first
    half; `is_default` is False for one `@`: only binaries linked against it get it.
    """

    __slots__ = (
        "binding",
        "index",
        "is_default",
        "name",
        "section",
        "size",
        "type",
        "value",
        "version",
    )

    def __init__(
        self, index: int, name: str, fields: tuple[int, int, int, int, int], version: str | None
    ) -> None:
        self.index = index
        self.name = name
        _, self.value, self.size, self.section, info = fields
        self.type = info & 15
        self.binding = info >> 4
        self.version = version
        self.is_default = True


class SymbolArray:
    """The symbols of one table; `name` says whose, for messages.

    `shift` is added to every value: a separate debug file may be linked elsewhere than the image
    that it belongs to. `versions` gives those of a dynamic symbol table. `partial` says what of
    symbols that were asked for could not be read.
    """

    __slots__ = (
        "_asked",
        "_by_name",
        "_long",
        "encoding",
        "name",
        "partial",
        "shift",
        "strings",
        "table",
        "versions",
    )

    def __init__(
        self,
        encoding: Encoding,
        table: bytes,
        strings: bytes,
        *,
        name: str,
        shift: int = 0,
        versions: Versions | None = None,
    ) -> None:
        self.encoding = encoding
        self.table = table[: len(table) // encoding.symbol.size * encoding.symbol.size]
        self.strings = strings
        self._long = LongNames(strings)
        self.name = name
        self.shift = shift
        self.versions = versions
        self.partial: list[str] = []
        self._asked = 0
        self._by_name: dict[bytes, list[int]] | None = None

    def __len__(self) -> int:
        """Return the number of symbols, with the null symbol."""
        return len(self.table) // self.encoding.symbol.size

    def fields(self, index: int) -> tuple[int, int, int, int, int]:
        """Return (offset of the name, value, size, section, info) of one symbol."""
        coding = self.encoding
        raw = coding.symbol.unpack_from(self.table, index * coding.symbol.size)
        if coding.bits == 64 and not self.shift:
            name, info, _, section, value, size = raw
            return name, value, size, section, info
        return _in_order(raw, coding.bits, self.shift)

    def rows(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Give (offset of the name, info, section, value, size) of every symbol, in order."""
        bits, shift = self.encoding.bits, self.shift
        if bits == 64 and not shift:  # nearly always, and many: as they stand there
            return struct.iter_unpack(self.encoding.order + "IBxHQQ", self.table)
        raw = self.encoding.symbol.iter_unpack(self.table)
        ordered = (_in_order(row, bits, shift) for row in raw)
        return ((name, info, section, value, size) for name, value, size, section, info in ordered)

    def text(self, offset: int) -> str:
        """Return the string at `offset`, "" where there is none."""
        end = self.strings.find(b"\0", offset, offset + SHORT)
        if end >= 0:
            return self.strings[offset:end].decode(*_DECODING)
        return (self._long.read(offset) or b"").decode(*_DECODING)

    def symbol(self, index: int) -> ArraySymbol:
        """Return one symbol, with its name and version."""
        fields = self.fields(index)
        name = self.text(fields[0])
        if not name and self.strings.find(b"\0", fields[0], fields[0] + SHORT) < 0:
            whose = "" if self._long.is_spent else f"st_name of symbol {index}: "
            self._say(whose + self._long.reason)
        if self.versions is not None:
            try:
                number, hidden = self.versions.number(index)
                version = self.versions.name(number, is_defined=fields[3] != c.SHN_UNDEF)
            except FormatError as error:
                self._say(str(error))
                hidden, version = False, None
            found = ArraySymbol(index, name, fields, version)
            found.is_default = not hidden
            return found
        base, at, version = name.partition("@")
        if not base or not at:
            return ArraySymbol(index, name, fields, None)
        found = ArraySymbol(index, base, fields, version.lstrip("@"))
        found.is_default = version.startswith("@")
        return found

    def _say(self, reason: str) -> None:
        if reason not in self.partial and len(self.partial) < _MAX_REASONS:
            self.partial.append(reason)

    def find(self, name: str, version: str | None = None) -> list[ArraySymbol]:
        """Return the symbols defined as `name`, in order of the table.

        Without a `version`, those that only binaries linked against them get are left out.
        """
        wanted = os.fsencode(name)
        if not wanted or b"\0" in wanted:
            return []
        self._asked += 1
        if self._by_name is None and self._asked > _FEW:
            self._by_name = self._index()
        known = self._by_name
        indices = self._search(wanted) if known is None else known.get(wanted, [])
        return [
            symbol
            for symbol in map(self.symbol, indices)
            if symbol.name == name
            and (symbol.is_default if version is None else symbol.version == version)
            and _is_definition(symbol)
        ]

    def known(self, wanted: AbstractSet[bytes]) -> set[bytes]:
        """Return which of many names it has, with or without a version: one pass."""
        if self._by_name is None:
            self._by_name = self._index()
        return wanted & self._by_name.keys()

    def _search(self, wanted: bytes) -> list[int]:
        """Return the symbols that are called so, perhaps with a version behind."""
        found: set[int] = set()
        for ending in (b"\0",) if self.versions is not None else (b"\0", b"@"):
            at = self.strings.find(wanted + ending)
            while at >= 0:
                found.update(self._with_name(at))
                at = self.strings.find(wanted + ending, at + 1)
        return sorted(found)

    def _index(self) -> dict[bytes, list[int]]:
        """Return all symbols by name: worth its while from some names on."""
        found: dict[bytes, list[int]] = {}
        is_versioned = self.versions is None
        for index, name in self.names():
            base = name.partition(b"@")[0] if is_versioned else name
            found.setdefault(base or name, []).append(index)
        return found

    def _with_name(self, offset: int) -> Iterator[int]:
        """Give the indices of the symbols whose st_name is `offset`: the first field of each."""
        step = self.encoding.symbol.size
        needle = self.encoding.u32.pack(offset)
        at = self.table.find(needle)
        while at >= 0:
            if at % step == 0:
                yield at // step
            at = self.table.find(needle, (at // step + 1) * step)

    def names(self, part: bytes = b"") -> Iterator[tuple[int, bytes]]:
        """Give (index, name) of all defined symbols whose name contains `part`."""
        if part and part not in self.strings:
            return
        strings, long = self.strings, LongNames(self.strings)
        for index, (offset, info, section, _, _) in enumerate(self.rows()):
            if section == c.SHN_UNDEF or not offset or info & 15 in _NO_NAMES:
                continue
            end = strings.find(b"\0", offset, offset + SHORT)
            name = strings[offset:end] if end >= 0 else long.read(offset)
            if name and (not part or part in name):
                yield index, name


def _in_order(raw: tuple[int, ...], bits: int, shift: int) -> tuple[int, int, int, int, int]:
    """Bring the two layouts of a symbol into one order."""
    if bits == 64:
        name, info, _, section, value, size = raw
    else:
        name, value, size, info, _, section = raw
    if shift and section != c.SHN_ABS and info & 15 != c.STT_TLS:
        value = value + shift & (1 << bits) - 1
    return name, value, size, section, info


def _is_definition(symbol: ArraySymbol) -> bool:
    return (
        symbol.section not in (c.SHN_UNDEF, c.SHN_COMMON)
        and symbol.type not in _NO_NAMES
        and symbol.binding in (c.STB_LOCAL, c.STB_GLOBAL, c.STB_WEAK, c.STB_GNU_UNIQUE)
    )


def read_table(
    source: ByteSource, sections: Sections, section: Section, encoding: Encoding, *, shift: int = 0
) -> SymbolArray:
    """Read the symbols of a section of type SHT_SYMTAB or SHT_DYNSYM and their names.

    Raises FormatError where they are not in the file, or belong to no string table.
    """
    if section.entsize != encoding.symbol.size:
        raise broken(source, "sh_entsize", section.offset, f"{section.entsize} bytes a symbol")
    if not 0 < section.link < len(sections.all):
        raise broken(source, "sh_link", section.offset, f"no section {section.link}")
    strings = sections.all[section.link]
    if strings.type != c.SHT_STRTAB:
        raise broken(source, "sh_link", section.offset, "not a string table")
    return SymbolArray(
        encoding,
        sections.data(section, _MAX_TABLE),
        sections.data(strings, _MAX_TABLE),
        name=source.name,
        shift=shift,
    )


def static_table(source: ByteSource, sections: Sections, encoding: Encoding) -> SymbolArray:
    """Read .symtab; an empty array where there is none.

    Raises FormatError as `read_table` does.
    """
    section = sections.of_type(c.SHT_SYMTAB)
    if section is None:
        return SymbolArray(encoding, b"", b"", name=source.name)
    return read_table(source, sections, section, encoding)


def dynamic_table(image: ElfReader) -> SymbolArray:
    """Read the whole dynamic symbol table of an image; an empty array where it has none.

    Raises FormatError where it is not all there.
    """
    at = image.locate_pointer(c.DT_SYMTAB)
    strings, size = image.locate_pointer(c.DT_STRTAB), image.dynamic.get(c.DT_STRSZ)
    if at is None or strings is None or not size:
        return SymbolArray(image.encoding, b"", b"", name=image.source.name)
    if size > _MAX_TABLE:
        raise broken(image.source, "DT_STRSZ", strings, f"{size} bytes")
    count = len(SymbolTable(image))
    versions = Versions(image)
    versions.read_numbers(count)
    return SymbolArray(
        image.encoding,
        take(image.source, at, count * image.encoding.symbol.size, "DT_SYMTAB"),
        take(image.source, strings, size, "DT_STRTAB"),
        name=image.source.name,
        versions=versions,
    )
