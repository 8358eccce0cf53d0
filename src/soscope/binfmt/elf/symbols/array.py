# SPDX-License-Identifier: Apache-2.0
"""A whole symbol table: .symtab, or a .dynsym that is read at once.

The table is kept as bytes, and symbols are decoded only on request. A name is found by a search
for its bytes, which takes milliseconds in a table of 100,000s of symbols.
"""

from __future__ import annotations

import os
import sys
from struct import error as StructError  # noqa: N812  it is an exception

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import SHORT, Encoding, LongNames
from soscope.binfmt.elf.symbols.lookup import Versions
from soscope.binfmt.source import ByteSource, broken
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from soscope.binfmt.elf.sections import Section, Sections

_MAX_REASONS = 20
_MAX_TABLE = 1 << 30
_FEW = 32  # names that are searched for one by one; for more, an index is made
_NO_NAMES = (c.STT_SECTION, c.STT_FILE)
_IS_LITTLE = sys.byteorder == "little"
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # os.fsdecode's

Row = tuple[int, int, int, int, int, int]  # name, info, other, section, value, size


class ElfSymbol:
    """One symbol; `value` is a link-time address, or a number for SHN_ABS.

    `version` is None if it has none. `is_default` is False for a version that only binaries get
    that were linked against it. Link editors write names like `name@VERSION` into .symtab: then
    `name` is the part before `@`, and a single `@` marks a version that is not the default.
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
        self, index: int, name: str, row: Row, version: str | None, *, is_default: bool = True
    ) -> None:
        self.index = index
        self.name = name
        _, info, _, self.section, self.value, self.size = row
        self.type, self.binding = info & 15, info >> 4
        self.version = version
        self.is_default = is_default

    @property
    def is_defined(self) -> bool:
        """Return whether the image defines the symbol, rather than only using it."""
        return self.section != c.SHN_UNDEF


class SymbolArray:
    """The symbols of one table; `name` is the name of its file, for messages.

    `shift` is added to every value, because a separate debug file may be linked at another
    address than its image. `versions` has the versions of a dynamic symbol table. `partial` lists
    what could not be read of the symbols that were asked for.
    """

    __slots__ = (
        "_asked",
        "_by_name",
        "_has_numbers",
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
        self._has_numbers = versions is not None and versions.are_there
        self.partial: list[str] = []
        self._asked = 0
        self._by_name: dict[bytes, list[int]] | None = None

    def __len__(self) -> int:
        """Return the number of symbols, including the null symbol."""
        return len(self.table) // self.encoding.symbol.size

    def row(self, index: int) -> Row:
        """Return the raw fields of one symbol: name, info, other, section, value, size.

        `name` is an offset. Raises IndexError if the table is shorter.
        """
        coding = self.encoding
        try:
            raw = coding.symbol.unpack_from(self.table, index * coding.symbol.size)
        except StructError:
            raise IndexError(index) from None
        return (
            raw if coding.bits == 64 and not self.shift else in_order(raw, coding.bits, self.shift)
        )

    def rows(self) -> Iterator[Row]:
        """Yield the raw fields of every symbol, as `row` does, in order."""
        bits, shift = self.encoding.bits, self.shift
        raw = self.encoding.symbol.iter_unpack(self.table)
        if bits == 64 and not shift:  # nearly always so, and quick: the stored order
            return raw
        return (in_order(row, bits, shift) for row in raw)

    def columns(self) -> tuple[list[int], list[int], list[int]]:
        """Return head, value and size of all symbols, as three lists.

        A head is one number: st_name in its lowest 32 bits, st_info in the 8 bits above, st_shndx
        from bit 48 on.
        """
        coding = self.encoding
        if coding.bits == 64 and coding.order == "<" and _IS_LITTLE and not self.shift:
            words = memoryview(self.table).cast("Q")  # in the stored order
            return words[0::3].tolist(), words[1::3].tolist(), words[2::3].tolist()
        rows = list(self.rows())
        return (
            [name | info << 32 | section << 48 for name, info, _, section, _, _ in rows],
            [row[4] for row in rows],
            [row[5] for row in rows],
        )

    def bytes_at(self, offset: int) -> bytes | None:
        """Return the string at `offset`, None if there is none or it is too long."""
        end = self.strings.find(b"\0", offset, offset + SHORT)
        return self.strings[offset:end] if end >= 0 else self._long.read(offset)

    def why_no_name(self, index: int) -> str:
        """Return why a symbol has no name, after `bytes_at` found none; "" if that is no error."""
        whose = "" if self._long.is_spent else f"st_name of symbol {index}: "
        return whose + self._long.reason if self._long.reason else ""

    def text(self, offset: int) -> str:
        """Return the string at `offset`, "" if there is none."""
        return (self.bytes_at(offset) or b"").decode(_ENCODING, _ERRORS)

    def symbol(self, index: int) -> ElfSymbol:
        """Return one symbol, with its name and version."""
        row, strings = self.row(index), self.strings
        end = strings.find(b"\0", row[0], row[0] + SHORT)
        if end >= 0:  # `text` inlined, for thousands of symbols
            name = strings[row[0] : end].decode(_ENCODING, _ERRORS)
        else:
            raw = self.bytes_at(row[0])
            if raw is None:
                self._say(self.why_no_name(index))
            name = (raw or b"").decode(_ENCODING, _ERRORS)
        if self.versions is not None:
            if not self._has_numbers:
                return ElfSymbol(index, name, row, None)
            try:
                number, hidden = self.versions.number(index)
                version = self.versions.name(number, is_defined=row[3] != c.SHN_UNDEF)
            except FormatError as error:
                self._say(str(error))
                hidden, version = False, None
            return ElfSymbol(index, name, row, version, is_default=not hidden)
        base, at, version = name.partition("@")
        if not base or not at:
            return ElfSymbol(index, name, row, None)
        is_default = version.startswith("@")
        return ElfSymbol(index, base, row, version.lstrip("@"), is_default=is_default)

    def _say(self, reason: str) -> None:
        if reason not in self.partial and len(self.partial) < _MAX_REASONS:
            self.partial.append(reason)

    def find(self, name: str, version: str | None = None) -> list[ElfSymbol]:
        """Return the symbols defined as `name`, in order of the table.

        Without a `version`, symbols that only binaries linked against them get are left out.
        """
        wanted = os.fsencode(name)
        if not wanted or b"\0" in wanted:
            return []
        self._asked += 1
        if self._by_name is None and self._asked > _FEW:
            self._by_name = self._index()
        known = self._by_name
        indices = self.called(wanted) if known is None else known.get(wanted, [])
        return [
            symbol
            for symbol in map(self.symbol, indices)
            if symbol.name == name
            and (symbol.is_default if version is None else symbol.version == version)
            and _is_definition(symbol)
        ]

    def known(self, wanted: AbstractSet[bytes]) -> set[bytes]:
        """Return the names of `wanted` that the table has, with or without a version."""
        if self._by_name is None:
            self._by_name = self._index()
        return wanted & self._by_name.keys()

    def called(self, wanted: bytes) -> list[int]:
        """Return the indices of the symbols with this name; in .symtab a version may follow it.

        Undefined symbols are included.
        """
        indices: set[int] = set()
        for ending in (b"\0",) if self.versions is not None else (b"\0", b"@"):
            at = self.strings.find(wanted + ending)
            while at >= 0:
                indices.update(self._with_name(at))
                at = self.strings.find(wanted + ending, at + 1)
        return sorted(indices)

    def _index(self) -> dict[bytes, list[int]]:
        """Return the indices of all symbols by name, which pays off for many look-ups."""
        by_name: dict[bytes, list[int]] = {}
        is_versioned = self.versions is None
        for index, name in self.names():
            base = name.partition(b"@")[0] if is_versioned else name
            by_name.setdefault(base or name, []).append(index)
        return by_name

    def _with_name(self, offset: int) -> Iterator[int]:
        """Yield the indices of the symbols whose first field, st_name, is `offset`."""
        step = self.encoding.symbol.size
        needle = self.encoding.u32.pack(offset)
        at = self.table.find(needle)
        while at >= 0:
            if at % step == 0:
                yield at // step
            at = self.table.find(needle, (at // step + 1) * step)

    def names(self, part: bytes = b"") -> Iterator[tuple[int, bytes]]:
        """Yield (index, name) of all defined symbols whose name contains `part`."""
        if part and part not in self.strings:
            return
        strings, long = self.strings, LongNames(self.strings)
        for index, (offset, info, _, section, _, _) in enumerate(self.rows()):
            if section == c.SHN_UNDEF or not offset or info & 15 in _NO_NAMES:
                continue
            end = strings.find(b"\0", offset, offset + SHORT)
            name = strings[offset:end] if end >= 0 else long.read(offset)
            if name and (not part or part in name):
                yield index, name


def in_order(raw: tuple[int, ...], bits: int, shift: int = 0) -> Row:
    """Return the fields of a symbol in the order of ELF64, for either class."""
    if bits == 64:
        name, info, other, section, value, size = raw
    else:
        name, value, size, info, other, section = raw
    if shift and section != c.SHN_ABS and info & 15 != c.STT_TLS:
        value = value + shift & (1 << bits) - 1
    return name, info, other, section, value, size


def _is_definition(symbol: ElfSymbol) -> bool:
    return (
        symbol.section not in (c.SHN_UNDEF, c.SHN_COMMON)
        and symbol.type not in _NO_NAMES
        and symbol.binding in (c.STB_LOCAL, c.STB_GLOBAL, c.STB_WEAK, c.STB_GNU_UNIQUE)
    )


def read_table(
    source: ByteSource, sections: Sections, section: Section, encoding: Encoding, *, shift: int = 0
) -> SymbolArray:
    """Read a section of type SHT_SYMTAB or SHT_DYNSYM, with the names of its symbols.

    Raises FormatError if the symbols are not in the file, or if they belong to no string table.
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
    """Read .symtab; an empty array if there is none.

    Raises FormatError as `read_table` does.
    """
    section = sections.of_type(c.SHT_SYMTAB)
    if section is None:
        return SymbolArray(encoding, b"", b"", name=source.name)
    return read_table(source, sections, section, encoding)
