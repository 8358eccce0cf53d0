# SPDX-License-Identifier: Apache-2.0
"""The symbols that relocations name: each with its version, and the library that is to have it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.longnames import SHORT, LongNames
from soscope.binfmt.elf.versions import Versions
from soscope.errors import FormatError

_T = TypeVar("_T")

_MAX_BYTES = 1 << 30
_MAX_STRINGS = 1 << 28

SYMBOL_TYPES = {
    c.STT_NOTYPE: "none",
    c.STT_OBJECT: "object",
    c.STT_FUNC: "function",
    c.STT_SECTION: "section",
    c.STT_COMMON: "object",
    c.STT_TLS: "tls",
    c.STT_GNU_IFUNC: "ifunc",
}


# name, version, type, defined here?, library: as model/filemap.py's Slot has them
Named = tuple[str, str | None, str, bool, str]
_Version = tuple[str | None, str]  # version, library
_NOBODY: Named = ("", None, "none", False, "")


class Names:
    """The symbols that relocations name.

    `named` has each by its index, without a name where the file has none.
    """

    __slots__ = ("_image", "_numbers", "_strings", "_table", "_versions", "named", "partial")

    def __init__(self, image: ElfImage, wanted: Collection[int]) -> None:
        """Read the symbols with the indices `wanted`."""
        self._image = image
        self.named: dict[int, Named] = {0: _NOBODY}
        self.partial: list[str] = []
        self._table = self._strings = b""
        self._numbers: Sequence[int] = ()
        self._versions: Versions | None = None
        if image.dynamic.get(c.DT_VERSYM) is not None:
            self._versions = self._quietly(lambda: Versions(image))
        most = max(wanted, default=0)
        if most:
            self._read(wanted, self._read_tables(most))

    def _read_tables(self, most: int) -> int:
        """Read the tables up to the symbol `most`; return where that of symbols lies."""
        image = self._image
        symbols = self._quietly(lambda: image.locate_pointer(c.DT_SYMTAB))
        strings = self._quietly(lambda: image.locate_pointer(c.DT_STRTAB))
        if symbols is None or strings is None:
            self.partial.append("no DT_SYMTAB or DT_STRTAB: symbols have no names")
            return 0
        step = image.encoding.symbol.size
        self._table = image.source.read(symbols, min((most + 1) * step, _MAX_BYTES))
        size = image.dynamic.get(c.DT_STRSZ) or 0
        self._strings = image.source.read(strings, min(size, _MAX_STRINGS))
        if len(self._strings) < size:
            self.partial.append(
                f"DT_STRTAB at offset {strings:#x}: {size} bytes expected,"
                f" {len(self._strings)} found"
            )
        if self._versions is not None:
            self._versions.strings = self._strings
            self._numbers = self._versions.read_numbers(min(most + 1, len(self._table) // step))
        return symbols

    def _quietly(self, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except FormatError as error:
            self.partial.append(str(error))
            return None

    def other(self, index: int) -> int:
        """Return st_other of one symbol, 0 where the file does not have it."""
        coding = self._image.encoding
        at = index * coding.symbol.size + (5 if coding.bits == 64 else 13)
        return self._table[at] if at < len(self._table) else 0

    def _read(self, wanted: Iterable[int], start: int) -> None:
        layout = self._image.encoding.symbol
        unpack, step = layout.unpack_from, layout.size
        is_64 = self._image.encoding.bits == 64
        table, strings, numbers = self._table, self._strings, self._numbers
        named, types, find = self.named, SYMBOL_TYPES, self._strings.find
        # those of undefined and of defined symbols, by their entries of DT_VERSYM
        versions: tuple[dict[int, _Version], dict[int, _Version]] = ({}, {})
        long = LongNames(strings)
        for index in wanted:
            if index in named:
                continue
            try:
                raw = unpack(table, index * step)
            except struct.error:
                self.partial.append(
                    f"DT_SYMTAB at offset {start:#x}: symbol {index} is outside of the file"
                )
                named[index] = _NOBODY
                continue
            if is_64:
                at, info, _, section, _, _ = raw
            else:
                at, _, _, info, _, section = raw
            end = find(b"\0", at, at + SHORT)
            if end >= 0:
                name = strings[at:end]
            else:
                name = long.read(at) or b""
                if not name and long.reason:
                    whose = "" if long.is_spent else f"st_name of symbol {index}: "
                    self.partial.append(whose + long.reason)
            is_defined = section != c.SHN_UNDEF
            if index < len(numbers):
                number = numbers[index]
                version = versions[is_defined].get(number)
                if version is None:
                    version = versions[is_defined][number] = self._version(number, is_defined)
                    numbers = self._numbers
            else:
                version = self._version_of(index, is_defined)
            named[index] = (
                name.decode("utf-8", "surrogateescape"),
                version[0],
                types.get(info & 15, "unknown"),
                is_defined,
                version[1],
            )

    def _version_of(self, index: int, is_defined: bool) -> _Version:
        """Return the version of a symbol whose number has not been read with the others."""
        if self._versions is None:
            return None, ""
        try:
            number, _ = self._versions.number(index)
        except FormatError as error:
            return self._no_versions(error)
        return self._version(number, is_defined)

    def _version(self, number: int, is_defined: bool) -> _Version:
        """Return the version, and its library, that an entry of DT_VERSYM stands for."""
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
        self._numbers = ()
        return None, ""
