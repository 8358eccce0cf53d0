# SPDX-License-Identifier: Apache-2.0
"""Symbol versions: DT_VERSYM's numbers, and the names that DT_VERNEED and DT_VERDEF give them."""

from __future__ import annotations

import os
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.longnames import SHORT
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import AheadSource, broken, take
from soscope.errors import FormatError

_MAX = 65536  # entries: version numbers have 15 bits
_MAX_NAMES = 1 << 22  # bytes


class Versions:
    """The versions of an image's symbols; each table of names is read when it is asked for."""

    __slots__ = (
        "_defined",
        "_files",
        "_image",
        "_length",
        "_needed",
        "_numbers",
        "_versym",
        "strings",
    )

    def __init__(self, image: ElfReader) -> None:
        self._image = image
        self._versym = image.locate_pointer(c.DT_VERSYM)
        self._numbers = b""
        self._needed: dict[int, str] | None = None
        self._defined: dict[int, str] | None = None
        self._files: dict[int, str] = {}
        self._length = 0  # of the names that have been read
        self.strings = b""  # DT_STRTAB, where somebody has read it

    def number(self, index: int) -> tuple[int, bool]:
        """Return (version number, is hidden) of the symbol at `index`; 0 and 1 have no name."""
        if self._versym is None:
            return 0, False
        half = self._image.encoding.half
        if 2 * index + 2 <= len(self._numbers):
            (value,) = half.unpack_from(self._numbers, 2 * index)
        else:
            (value,) = half.unpack(
                take(self._image.source, self._versym + 2 * index, 2, "DT_VERSYM")
            )
        return value & ~c.VERSYM_HIDDEN, value > c.VERSYM_HIDDEN - 1

    def read_numbers(self, count: int) -> tuple[int, ...]:
        """Read DT_VERSYM's entries for `count` symbols at once, as far as they are there."""
        if self._versym is None:
            return ()
        self._numbers = data = self._image.source.read(self._versym, 2 * count)
        order = self._image.encoding.order
        return Struct(f"{order}{len(data) // 2}H").unpack_from(data)

    def name(self, number: int, *, is_defined: bool) -> str | None:
        """Return the name of version `number`, None where it has none.

        Raises FormatError where the tables of versions are damaged.
        """
        if number <= 1:  # local, or global without a version
            return None
        if is_defined:
            return self._names_defined().get(number) or self._names_needed().get(number)
        return self._names_needed().get(number) or self._names_defined().get(number)

    def _names_needed(self) -> dict[int, str]:
        if self._needed is None:
            self._needed = self._read_needed()
        return self._needed

    def _names_defined(self) -> dict[int, str]:
        if self._defined is None:
            self._defined = self._read_defined()
        return self._defined

    def file(self, number: int) -> str:
        """Return the library that is to have the needed version `number`, "" where none is.

        Raises FormatError where the tables of versions are damaged.
        """
        if self.name(number, is_defined=False) is None:
            return ""
        return self._files.get(number, "")

    def _read_needed(self) -> dict[int, str]:
        # Elfxx_Verneed: version, count, file, aux, next; Elfxx_Vernaux: hash, flags, other,
        # name, next. The same in both classes; `aux` and `next` are relative.
        need = Struct(self._image.encoding.order + "HHIII")
        aux = Struct(self._image.encoding.order + "IHHII")
        names: dict[int, str] = {}
        walked: set[int] = set()  # chains may run into each other: each entry says one thing
        source = AheadSource(self._image.source)
        at = self._image.locate_pointer(c.DT_VERNEED)
        for _ in range(min(self._image.dynamic.get(c.DT_VERNEEDNUM) or 0, _MAX)):
            if at is None:
                break
            fields = need.unpack(take(source, at, need.size, "DT_VERNEED"))
            entry = at + fields[3]
            try:
                file = self._string(fields[2], "vn_file")
            except FormatError:
                file = ""  # the versions are right without it
            for _ in range(fields[1]):
                if entry in walked:
                    break
                walked.add(entry)
                if len(walked) > _MAX:
                    raise broken(source, "DT_VERNEED", entry, f"over {_MAX} entries")
                data = take(source, entry, aux.size, "DT_VERNEED")
                _, _, other, name, following = aux.unpack(data)
                number = other & ~c.VERSYM_HIDDEN
                names[number] = self._string(name, "vna_name")
                self._files[number] = file
                if not following:
                    break
                entry += following
            if not fields[4]:
                return names
            at += fields[4]
        return names

    def _read_defined(self) -> dict[int, str]:
        # Elfxx_Verdef: version, flags, ndx, count, hash, aux, next; its first Elfxx_Verdaux
        # (name, next) is its own name, the others are its parents.
        define = Struct(self._image.encoding.order + "HHHHIII")
        aux = Struct(self._image.encoding.order + "II")
        names: dict[int, str] = {}
        source = AheadSource(self._image.source)
        at = self._image.locate_pointer(c.DT_VERDEF)
        for _ in range(min(self._image.dynamic.get(c.DT_VERDEFNUM) or 0, _MAX)):
            if at is None:
                break
            fields = define.unpack(take(source, at, define.size, "DT_VERDEF"))
            if fields[3]:
                data = take(source, at + fields[5], aux.size, "DT_VERDEF")
                name = self._string(aux.unpack(data)[0], "vda_name")
                names[fields[2] & ~c.VERSYM_HIDDEN] = name
            if not fields[6]:
                break
            at += fields[6]
        return names

    def _string(self, offset: int, field: str) -> str:
        end = self.strings.find(b"\0", offset, offset + SHORT)
        if end >= 0:
            name = os.fsdecode(self.strings[offset:end])
        else:
            name = self._image.string(offset, field)
        self._length += len(name)
        if self._length > _MAX_NAMES:
            raise broken(self._image.source, field, offset, f"names of over {_MAX_NAMES} bytes")
        return name
