# SPDX-License-Identifier: Apache-2.0
"""Symbol versions: the numbers in DT_VERSYM, and their names from DT_VERNEED and DT_VERDEF.

They are read as glibc does (_dl_check_map_versions of elf/dl-version.c). A chain ends where its
last entry says so, whatever DT_VERNEEDNUM and DT_VERDEFNUM are. The entry VER_FLG_BASE, which
names the file itself, is not a version. Names are read on request, because a caller needs one of
hundreds.
"""

from __future__ import annotations

import os
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.longnames import SHORT
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.symbols.lookup import numbers
from soscope.binfmt.source import AheadSource, broken, take
from soscope.errors import FormatError

_MAX = 65536  # entries; version numbers have 15 bits
_MAX_NAMES = 1 << 22  # bytes
_VER_FLG_BASE = 1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.symbols.lookup import Numbers

# version number -> offsets of its name and its library's name in DT_STRTAB (0 for the file itself)
_Entries = dict[int, tuple[int, int]]


class Versions:
    """The versions of an image's symbols; each table is read on first use."""

    __slots__ = (
        "_defined",
        "_image",
        "_length",
        "_names",
        "_needed",
        "_numbers",
        "_versym",
        "strings",
    )

    def __init__(self, image: ElfReader) -> None:
        self._image = image
        self._versym: int | bool | None = False  # False: not located yet
        self._numbers: Numbers = numbers(b"", 2, "<")
        self._needed: _Entries | None = None
        self._defined: _Entries | None = None
        # by version number; for undefined symbols by the number's complement
        self._names: dict[int, str | None] = {}
        self._length = 0  # length of all names read so far
        self.strings = b""  # DT_STRTAB, if a caller has read it

    def _place(self) -> int | None:
        """Return the position of DT_VERSYM, None if there is none."""
        if isinstance(self._versym, bool):
            self._versym = self._image.locate_pointer(c.DT_VERSYM)
        return self._versym

    @property
    def are_there(self) -> bool:
        """Return whether the image has a DT_VERSYM, at any position."""
        return self._image.dynamic.get(c.DT_VERSYM) is not None

    def raw(self, index: int) -> int | None:
        """Return a symbol's word of DT_VERSYM, None if the image has no versions.

        Raises FormatError if the word is outside of the source.
        """
        if index < len(self._numbers):
            return int(self._numbers[index])
        place = self._place()
        if place is None:
            return None
        data = take(self._image.source, place + 2 * index, 2, "DT_VERSYM")
        return int(self._image.encoding.half.unpack(data)[0])

    def number(self, index: int) -> tuple[int, bool]:
        """Return (version number, is hidden) of a symbol; numbers 0 and 1 have no name."""
        value = self.raw(index) or 0
        return value & ~c.VERSYM_HIDDEN, value >= c.VERSYM_HIDDEN

    def read_numbers(self, count: int) -> Numbers:
        """Read the entries of DT_VERSYM for `count` symbols at once, as far as they exist."""
        place = self._place()
        if place is not None and len(self._numbers) < count:
            data = self._image.source.read(place, 2 * count)
            self._numbers = numbers(data, 2, self._image.encoding.order)
        return self._numbers

    def demand_numbers(self, count: int) -> Numbers:
        """Read the entries of DT_VERSYM for `count` symbols; none if the image has no versions.

        Raises FormatError if some of them are missing.
        """
        entries = self.read_numbers(count)
        if len(entries) < count and self.are_there:
            self.raw(len(entries))  # raises the error for the missing entry
        return entries

    def read_own(self) -> None:
        """Read the versions that the image defines. Raises FormatError if that table is damaged."""
        if self.are_there:
            self._own()

    def name(self, number: int, *, is_defined: bool) -> str | None:
        """Return the name of version `number`, None if it has none.

        Raises FormatError if the tables of versions are damaged.
        """
        number &= ~c.VERSYM_HIDDEN
        key = number if is_defined else ~number
        try:
            return self._names[key]
        except KeyError:
            name = self._names[key] = self._find_name(number, is_defined=is_defined)
            return name

    def _find_name(self, number: int, *, is_defined: bool) -> str | None:
        # unless the file defines them, 0 is a local symbol and 1 a symbol without a version
        other = self._others().get(number) if number > 1 and not is_defined else None
        if other is None and (is_defined or number > 1):
            own = self._own().get(number)
            if own is not None:
                return self._string(own[0], "vda_name")
            other = self._others().get(number) if number > 1 else None
        return None if other is None else self._string(other[0], "vna_name")

    def file(self, number: int) -> str:
        """Return the library that should define the needed version `number`, "" if none is named.

        Raises FormatError if the tables of versions are damaged.
        """
        entry = self._others().get(number) if number > 1 else None
        if entry is None:
            return ""
        try:
            return self._string(entry[1], "vn_file")
        except FormatError:
            return ""  # versions are valid without their libraries

    def _others(self) -> _Entries:
        if self._needed is None:
            self._needed = self._read_needed()
        return self._needed

    def _own(self) -> _Entries:
        if self._defined is None:
            self._defined = self._read_defined()
        return self._defined

    def _read_needed(self) -> _Entries:
        # Elfxx_Verneed: version, count, file, aux, next; Elfxx_Vernaux: hash, flags, other,
        # name, next. The same in both classes; `aux` and `next` are relative.
        needed: _Entries = {}
        at = self._image.locate_pointer(c.DT_VERNEED)
        if at is None:
            return needed
        need = Struct(self._image.encoding.order + "HHIII")
        aux = Struct(self._image.encoding.order + "IHHII")
        walked: set[int] = set()  # chains may share entries: read each entry once
        source = AheadSource(self._image.source)
        for _ in range(_MAX):
            _, count, file, offset, following = need.unpack(
                take(source, at, need.size, "DT_VERNEED")
            )
            entry = at + offset
            for _ in range(count):
                if entry in walked:
                    break
                walked.add(entry)
                if len(walked) > _MAX:
                    raise broken(source, "DT_VERNEED", entry, f"over {_MAX} entries")
                data = take(source, entry, aux.size, "DT_VERNEED")
                _, _, other, name, more = aux.unpack(data)
                needed[other & ~c.VERSYM_HIDDEN] = name, file
                if not more:
                    break
                entry += more
            if not following:
                break
            at += following
        return needed

    def _read_defined(self) -> _Entries:
        # Elfxx_Verdef: version, flags, ndx, count, hash, aux, next. Its first Elfxx_Verdaux (name,
        # next) has the name of the version, the others have the names of its parents.
        defined: _Entries = {}
        at = self._image.locate_pointer(c.DT_VERDEF)
        if at is None:
            return defined
        define = Struct(self._image.encoding.order + "HHHHIII")
        source = AheadSource(self._image.source)
        for _ in range(_MAX):
            _, flags, number, count, _, aux, following = define.unpack(
                take(source, at, define.size, "DT_VERDEF")
            )
            if count and not flags & _VER_FLG_BASE:
                (name,) = self._image.encoding.u32.unpack(take(source, at + aux, 4, "DT_VERDEF"))
                defined[number & ~c.VERSYM_HIDDEN] = int(name), 0
            if not following:
                break
            at += following
        return defined

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
