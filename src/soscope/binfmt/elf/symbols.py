# SPDX-License-Identifier: Apache-2.0
"""Dynamic symbols: by name through the hash tables, or all of them.

Nothing in memory says how many symbols there are. DT_HASH counts them; DT_GNU_HASH only
counts the exported ones; the rest is what the relocations name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import hashes, relocations, versions
from soscope.binfmt.elf.longnames import SHORT, LongNames
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken, take

Fields = tuple[int, int, int, int, int]  # name, value, size, section, info

_MAX_SYMBOLS = 1 << 24
_MAX_STRINGS = 1 << 28


class Symbol:
    """One dynamic symbol. `value` is a link-time address; `version` is None where unversioned.

    `is_default` is False for a version that only binaries linked against it get.
    """

    __slots__ = (
        "binding",
        "index",
        "is_default",
        "is_defined",
        "name",
        "size",
        "type",
        "value",
        "version",
    )

    def __init__(
        self,
        index: int,
        name: str,
        value: int,
        size: int,
        info: int,
        is_defined: bool,
        version: str | None,
        is_default: bool,
    ) -> None:
        self.index = index
        self.name = name
        self.value = value
        self.size = size
        self.type = info & 15
        self.binding = info >> 4
        self.is_defined = is_defined
        self.version = version
        self.is_default = is_default


class SymbolTable:
    """The dynamic symbol table of an image, read as far as it is asked for."""

    __slots__ = ("_count", "_image", "_strings", "_symbols", "_versions")

    def __init__(self, image: ElfReader) -> None:
        self._image = image
        self._symbols = image.locate_pointer(c.DT_SYMTAB)
        self._strings = image.locate_pointer(c.DT_STRTAB)
        self._versions = versions.Versions(image)
        self._count: int | None = None

    def lookup(self, name: str) -> Symbol | None:
        """Return the definition of `name`, the default version first, None if there is none."""
        found = self._find(os.fsencode(name))
        return None if found is None else self._make(found[0], name, found[1])

    def addr(self, name: str) -> int | None:
        """Return the run-time address of `name`, None where it is not defined here.

        Cheaper than `lookup`: the names of versions are not read.
        """
        found = self._find(os.fsencode(name))
        return None if found is None else found[1][1] + self._image.load_bias

    def _find(self, name: bytes) -> tuple[int, Fields] | None:
        """Return index and fields of the definition of `name`, the default version first."""
        if self._symbols is None or self._strings is None:
            return None
        wanted = name + b"\0"
        found = None
        for index in hashes.candidates(self._image, name):
            fields = self._read(index)
            at = self._strings + fields[0]
            if fields[3] == c.SHN_UNDEF or self._image.source.read(at, len(wanted)) != wanted:
                continue
            if not self._versions.number(index)[1]:
                return index, fields
            found = found or (index, fields)
        return found

    def __iter__(self) -> Iterator[Symbol]:
        """Read all symbols but the null symbol at index 0."""
        count = len(self)
        if count <= 1 or self._symbols is None:
            return
        coding = self._image.encoding
        table = take(self._image.source, self._symbols, count * coding.symbol.size, "DT_SYMTAB")
        strings = self._all_strings()
        long = LongNames(strings)
        for index in range(1, count):
            fields = self._fields(coding.symbol.unpack_from(table, index * coding.symbol.size))
            end = strings.find(b"\0", fields[0], fields[0] + SHORT)
            name = strings[fields[0] : end] if end >= 0 else long.read(fields[0])
            if name is None:
                where = self._symbols + index * coding.symbol.size
                raise broken(self._image.source, "st_name", where, long.reason)
            yield self._make(index, os.fsdecode(name), fields)

    def __len__(self) -> int:
        """Return the number of symbols, with the null symbol; at least all that are used."""
        if self._count is None:
            image = self._image
            count = hashes.symbol_count(image)
            if count is None:
                count = hashes.exported_end(image)
                count = max([count, *(index + 1 for index in relocations.all_symbols(image))])
            if count > _MAX_SYMBOLS:
                raise broken(image.source, "DT_SYMTAB", self._symbols or 0, f"{count} symbols")
            self._count = count
        return self._count

    # ---- pieces ----

    def _fields(self, raw: tuple[int, ...]) -> Fields:
        """Bring the two layouts into one order: name, value, size, section, info."""
        if self._image.encoding.bits == 64:
            name, info, _, section, value, size = raw
        else:
            name, value, size, info, _, section = raw
        return name, value, size, section, info

    def _read(self, index: int) -> Fields:
        layout = self._image.encoding.symbol
        where = (self._symbols or 0) + index * layout.size
        return self._fields(
            layout.unpack(take(self._image.source, where, layout.size, "DT_SYMTAB"))
        )

    def _make(self, index: int, name: str, fields: Fields) -> Symbol:
        number, hidden = self._versions.number(index)
        is_defined = fields[3] != c.SHN_UNDEF
        version = self._versions.name(number, is_defined=is_defined)
        return Symbol(index, name, fields[1], fields[2], fields[4], is_defined, version, not hidden)

    def _all_strings(self) -> bytes:
        image = self._image
        size = image.dynamic.get(c.DT_STRSZ)
        if self._strings is None or size is None or size > _MAX_STRINGS:
            raise broken(image.source, "DT_STRSZ", self._strings or 0, f"size is {size}")
        return take(image.source, self._strings, size, "DT_STRTAB")
