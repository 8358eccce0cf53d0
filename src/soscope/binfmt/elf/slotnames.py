# SPDX-License-Identifier: Apache-2.0
"""The symbols that relocations name: each with its version, and the library that is to have it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
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


class Named(NamedTuple):
    """What a symbol table says of one symbol; `library` as of model/filemap.py's Slot."""

    name: str
    version: str | None
    type: str
    defined_here: bool
    library: str


_NOBODY = Named("", None, "none", False, "")


class Names:
    """The symbols that relocations name, as far as they are asked for."""

    __slots__ = (
        "_at",
        "_image",
        "_is_64",
        "_known",
        "_numbers",
        "_step",
        "_strings",
        "_table",
        "_unpack",
        "_versions",
        "_versions_known",
        "partial",
    )

    def __init__(self, image: ElfImage, most: int) -> None:
        """Read the table up to the symbol `most`."""
        self._image = image
        self._known: dict[int, Named] = {0: _NOBODY}
        self._versions_known: dict[tuple[int, bool], tuple[str | None, str]] = {}
        self.partial: list[str] = []
        self._table = self._strings = b""
        self._at = 0
        self._unpack = image.encoding.symbol.unpack_from
        self._is_64 = image.encoding.bits == 64
        self._step = step = image.encoding.symbol.size
        self._numbers: Sequence[int] = ()
        self._versions: Versions | None = None
        if image.dynamic.get(c.DT_VERSYM) is not None:
            self._versions = self._quietly(lambda: Versions(image))
        if not most:
            return
        symbols = self._quietly(lambda: image.locate_pointer(c.DT_SYMTAB))
        strings = self._quietly(lambda: image.locate_pointer(c.DT_STRTAB))
        if symbols is None or strings is None:
            self.partial.append("no DT_SYMTAB or DT_STRTAB: symbols have no names")
            return
        self._at = symbols
        self._table = image.source.read(symbols, min((most + 1) * step, _MAX_BYTES))
        size = image.dynamic.get(c.DT_STRSZ) or 0
        self._strings = image.source.read(strings, min(size, _MAX_STRINGS))
        if len(self._strings) < size:
            self.partial.append(
                f"DT_STRTAB at offset {strings:#x}: {size} bytes expected,"
                f" {len(self._strings)} found"
            )
        if self._versions is not None:
            self._numbers = self._versions.read_numbers(min(most + 1, len(self._table) // step))

    def _quietly(self, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except FormatError as error:
            self.partial.append(str(error))
            return None

    def get(self, index: int) -> Named:
        """Return one symbol, without a name where the file has none."""
        found = self._known.get(index)
        if found is None:
            found = self._known[index] = self._make(index)
        return found

    def other(self, index: int) -> int:
        """Return st_other of one symbol, 0 where the file does not have it."""
        coding = self._image.encoding
        at = index * coding.symbol.size + (5 if coding.bits == 64 else 13)
        return self._table[at] if at < len(self._table) else 0

    def _make(self, index: int) -> Named:
        strings = self._strings
        try:
            raw = self._unpack(self._table, index * self._step)
        except struct.error:
            self.partial.append(
                f"DT_SYMTAB at offset {self._at:#x}: symbol {index} is outside of the file"
            )
            return _NOBODY
        if self._is_64:
            at, info, _, section, _, _ = raw
        else:
            at, _, _, info, _, section = raw
        end = strings.find(b"\0", at)
        if end < 0:
            self.partial.append(f"st_name of symbol {index}: {at:#x} is outside of DT_STRTAB")
            end = at
        is_defined = section != c.SHN_UNDEF
        numbers = self._numbers
        if index < len(numbers):
            number = numbers[index] & ~c.VERSYM_HIDDEN
            known = self._versions_known.get((number, is_defined))
        else:
            number, known = None, None
        version, library = known or self._version(index, number, is_defined)
        return tuple.__new__(
            Named,
            (
                strings[at:end].decode("utf-8", "surrogateescape"),
                version,
                SYMBOL_TYPES.get(info & 15, "unknown"),
                is_defined,
                library,
            ),
        )

    def _version(self, index: int, number: int | None, is_defined: bool) -> tuple[str | None, str]:
        """Return version and library of a symbol, whose version number may be known."""
        versions = self._versions
        if versions is None:
            return None, ""
        try:
            if number is None:
                number, _ = versions.number(index)
            name = versions.name(number, is_defined=is_defined)
            library = "" if is_defined or name is None else versions.file(number)
        except FormatError as error:
            self.partial.append(str(error))
            self._versions = None
            self._numbers = ()
            return None, ""
        self._versions_known[number, is_defined] = name, library
        return name, library
