# SPDX-License-Identifier: Apache-2.0
"""The symbols that relocations name, each with its version and the library that should have it."""

from __future__ import annotations

import os
from typing import TypeVar

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.lookup import Versions
from soscope.binfmt.elf.symboltable import SymbolArray
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


_T = TypeVar("_T")

SYMBOL_TYPES = {
    c.STT_NOTYPE: "none",
    c.STT_OBJECT: "object",
    c.STT_FUNC: "function",
    c.STT_SECTION: "section",
    c.STT_COMMON: "object",
    c.STT_TLS: "tls",
    c.STT_GNU_IFUNC: "ifunc",
}


# name, version, type, defined here?, library: as in FileSlot of model/filemap.py
Named = tuple[str, str | None, str, bool, str]
_Version = tuple[str | None, str]  # version, library
_NOBODY: Named = ("", None, "none", False, "")


class Names:
    """The symbols that relocations name.

    `named` maps the index of each symbol to its names. If the file has no name for it, the name
    is empty.
    """

    __slots__ = ("_array", "_versions", "named", "partial")

    def __init__(self, image: ElfImage, wanted: Collection[int]) -> None:
        """Read the symbols with the indices `wanted`."""
        self.named: dict[int, Named] = {0: _NOBODY}
        self.partial: list[str] = []
        self._array = SymbolArray(image.encoding, b"", b"", name=image.source.name)
        self._versions: Versions | None = None
        most = max(wanted, default=0)
        if most:
            self._read(wanted, self._read_tables(image, most))

    def _read_tables(self, image: ElfImage, most: int) -> int:
        """Read the tables up to symbol index `most`; return the position of the symbol table."""
        symbols = self._quietly(lambda: image.symbols)
        start, strings = (0, 0) if symbols is None else symbols.places
        if symbols is None or not start or not strings:
            self.partial.append("no DT_SYMTAB or DT_STRTAB: symbols have no names")
            return 0
        self._array = array = symbols.leading(most + 1)
        size = image.dynamic.get(c.DT_STRSZ) or 0
        if len(array.strings) < size:
            self.partial.append(
                f"DT_STRTAB at offset {strings:#x}: {size} bytes expected,"
                f" {len(array.strings)} found"
            )
        if image.dynamic.get(c.DT_VERSYM) is not None:
            self._versions = array.versions
        return start

    def _quietly(self, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except FormatError as error:
            self.partial.append(str(error))
            return None

    def other(self, index: int) -> int:
        """Return st_other of one symbol, 0 if the file does not have the symbol."""
        return self._array.row(index)[2] if index < len(self._array) else 0

    def _read(self, wanted: Iterable[int], start: int) -> None:
        array, named, types = self._array, self.named, SYMBOL_TYPES
        # versions of undefined and of defined symbols, by their entries of DT_VERSYM
        known: tuple[dict[int, _Version], dict[int, _Version]] = ({}, {})
        versions = self._versions
        numbers = (versions and self._quietly(lambda: versions.read_numbers(len(array)))) or ()
        row, text = array.row, array.bytes_at
        for index in wanted:
            if index in named:
                continue
            try:
                offset, info, _, section, _, _ = row(index)
            except IndexError:
                self.partial.append(
                    f"DT_SYMTAB at offset {start:#x}: symbol {index} is outside of the file"
                )
                named[index] = _NOBODY
                continue
            name = text(offset)
            if name is None:
                self.partial.append(array.why_no_name(index))
            is_defined = section != c.SHN_UNDEF
            if index < len(numbers) and self._versions is not None:
                number = numbers[index]
                version = known[is_defined].get(number)
                if version is None:
                    version = known[is_defined][number] = self._version(number, is_defined)
            else:
                version = self._version_of(index, is_defined)
            named[index] = (
                os.fsdecode(name or b""),
                version[0],
                types.get(info & 15, "unknown"),
                is_defined,
                version[1],
            )

    def _version_of(self, index: int, is_defined: bool) -> _Version:
        """Return the version of a symbol whose entry of DT_VERSYM was not read with the others."""
        if self._versions is None:
            return None, ""
        try:
            number, _ = self._versions.number(index)
        except FormatError as error:
            return self._no_versions(error)
        return self._version(number, is_defined)

    def _version(self, number: int, is_defined: bool) -> _Version:
        """Return the version, and its library, for an entry of DT_VERSYM."""
        versions, number = self._versions, number & ~c.VERSYM_HIDDEN
        if versions is None:
            return None, ""
        try:
            name = versions.name(number, is_defined=is_defined)
            library = "" if is_defined or name is None else versions.file(number)
        except FormatError as error:
            return self._no_versions(error)
        return name, library

    def _no_versions(self, error: FormatError) -> _Version:
        self.partial.append(str(error))
        self._versions = None
        return None, ""
