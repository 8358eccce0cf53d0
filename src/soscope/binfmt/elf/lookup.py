# SPDX-License-Identifier: Apache-2.0
"""Look up symbols by name in DT_GNU_HASH and DT_HASH, and read symbol versions."""

from __future__ import annotations

import os
import sys
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import SHORT, ElfReader
from soscope.binfmt.source import AheadSource, broken, require, take
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from typing import Literal

    Numbers = memoryview | array[int]


# DT_GNU_HASH and DT_HASH: from a name to the symbols that may have it.
#
# DT_GNU_HASH: u32 buckets, first symbol, bloom words, shift; bloom filter in address-sized words;
# u32 bucket[]; u32 chain[] from the first symbol on, whose lowest bit ends a chain. DT_HASH: u32
# buckets, symbols; u32 bucket[]; u32 chain[]. On s390x and Alpha all of them are u64.
# DT_MIPS_XHASH, the DT_GNU_HASH of MIPS, is not read: MIPS has a dynamic tag for the number of
# symbols.
#
# At first, one read gets the head of a table, which suffices to rule most names out. `read_all`
# reads the rest, for callers that look up many names or want to close the file.

_MAX_BUCKETS = 1 << 26
_MAX_SYMBOLS = 1 << 26
_HEAD = 4096  # bytes of the first read
_PIECE = 64  # bytes of the first read of a chain
_CODES: dict[int, Literal["H", "I", "Q"]] = {2: "H", 4: "I", 8: "Q"}


def gnu_hash(name: bytes) -> int:
    """Hash a name for DT_GNU_HASH."""
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFF_FFFF
    return value


def sysv_hash(name: bytes) -> int:
    """Hash a name for DT_HASH. gABI, "Hash Table"."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & ~high & 0xFFFF_FFFF
    return value


class Name:
    """A name to look up, made once for many images; `text` ends with its NUL byte."""

    __slots__ = ("_sysv", "gnu", "text")

    def __init__(self, name: bytes) -> None:
        self.text = name + b"\0"
        self.gnu = gnu_hash(name)
        self._sysv: int | None = None

    @property
    def sysv(self) -> int:
        """Its hash for DT_HASH, computed only for the few images that need it."""
        if self._sysv is None:
            self._sysv = sysv_hash(self.text[:-1])
        return self._sysv


def numbers(data: bytes, size: int, order: str) -> Numbers:
    """Return `data` as unsigned numbers of `size` bytes each; an incomplete last one is dropped."""
    data = data[: len(data) // size * size]
    if order == ("<" if sys.byteorder == "little" else ">"):
        return memoryview(data).cast(_CODES[size])
    from array import array

    values = array(next(code for code in "HILQ" if array(code).itemsize == size), data)
    values.byteswap()
    return values


class GnuHash:
    """The table DT_GNU_HASH; `first` is the index of the first symbol in it."""

    __slots__ = (
        "_at",
        "_bits",
        "_bloom",
        "_buckets",
        "_is_whole",
        "_mask",
        "_numbers",
        "_order",
        "_shift",
        "_source",
        "first",
    )

    def __init__(self, image: ElfReader, at: int) -> None:
        """Read the table's head, at `at`. Raises FormatError if it is invalid."""
        self._source = image.source
        self._at = at
        self._order = image.encoding.order
        self._bits = image.encoding.bits
        head = image.source.read(at, _HEAD)
        require(head, 16, image.source, at, "DT_GNU_HASH")
        unpack = image.encoding.u32.unpack_from
        self._buckets: int = unpack(head, 0)[0]
        self.first: int = unpack(head, 4)[0]
        words: int = unpack(head, 8)[0]
        self._shift: int = unpack(head, 12)[0]
        if self._buckets > _MAX_BUCKETS or not 0 < words <= _MAX_BUCKETS or words & words - 1:
            raise self._broken(f"{self._buckets} buckets, {words} bloom words")
        self._mask = words - 1
        self._is_whole = False
        self._split(head)

    def _split(self, data: bytes) -> None:
        """Store the filter and the numbers behind it, as far as `data` has them."""
        size = self._bits // 8
        end = 16 + (self._mask + 1) * size
        self._bloom = numbers(data[16:end], size, self._order)
        self._numbers = numbers(data[end:], 4, self._order)

    def _broken(self, why: str) -> Exception:
        return broken(self._source, "DT_GNU_HASH", self._at, why)

    def _word(self, index: int) -> int:
        """Read one word of the filter that was not read before."""
        size = self._bits // 8
        data = take(self._source, self._at + 16 + index * size, size, "DT_GNU_HASH")
        return int(numbers(data, size, self._order)[0])

    def _number(self, place: int) -> int:
        """Return one of the numbers behind the filter: first the buckets, then the chains."""
        if place < len(self._numbers):
            return int(self._numbers[place])
        at = self._at + 16 + (self._mask + 1) * self._bits // 8 + 4 * place
        return int(numbers(take(self._source, at, 4, "DT_GNU_HASH"), 4, self._order)[0])

    def indices(self, name: Name) -> list[int]:
        """Return the symbols that may have this name, in order. Raises FormatError."""
        value, bits = name.gnu, self._bits
        at = value // bits & self._mask
        word = self._bloom[at] if at < len(self._bloom) else self._word(at)
        # most names are in another image: the filter rules them out here
        if not word >> value % bits & word >> (value >> self._shift) % bits & 1:
            return []
        if not self._buckets:
            return []
        index = self._number(value % self._buckets)
        if not index:
            return []
        if index < self.first:
            raise self._broken(f"a bucket points to symbol {index}")
        indices: list[int] = []
        for place in range(self._buckets + index - self.first, _MAX_SYMBOLS):
            link = self._number(place)
            if link | 1 == value | 1:
                indices.append(place - self._buckets + self.first)
            if link & 1:
                return indices
        raise self._broken("a chain has no end")

    def read_all(self) -> None:
        """Read the whole table. Raises FormatError if it has no end."""
        if self._is_whole:
            return
        buckets = self._buckets
        size = 16 + (self._mask + 1) * self._bits // 8 + 4 * buckets
        if len(self._numbers) < buckets:
            self._split(take(self._source, self._at, size, "DT_GNU_HASH"))
        last = max(self._numbers[:buckets], default=0)
        if last:
            if not self.first <= last < _MAX_SYMBOLS:
                raise self._broken(f"a bucket points to symbol {last}")
            end = buckets + last - self.first
            known = len(self._numbers)
            while end < known and not self._numbers[end] & 1:
                end += 1
            if end >= known:
                chains = self._chains(self._at + size, last)
                self._split(take(self._source, self._at, size, "DT_GNU_HASH") + chains)
                end = len(self._numbers)
        else:
            end = buckets - 1
        self._numbers = self._numbers[: end + 1]
        self._is_whole = True

    def _chains(self, start: int, last: int) -> bytes:
        """Return the chains, to the end of the chain of symbol `last`, which ends the table."""
        have = take(self._source, start, 4 * (last - self.first), "DT_GNU_HASH chain")
        size = _PIECE
        while len(have) <= 4 * _MAX_SYMBOLS:
            piece = self._source.read(start + len(have), size)
            require(piece, 4, self._source, start + len(have), "DT_GNU_HASH chain")
            links = numbers(piece, 4, self._order)
            ends = [place for place, link in enumerate(links) if link & 1]
            if ends:
                return have + piece[: 4 * (ends[0] + 1)]
            have += piece[: 4 * len(links)]
            size *= 2
        raise self._broken("a chain has no end")

    @property
    def end(self) -> int:
        """The index behind its last symbol, 0 if it has none. Raises FormatError."""
        hashes = self.hashes
        return self.first + len(hashes) if hashes else 0

    @property
    def hashes(self) -> Numbers:
        """The hash of each of its symbols, without the lowest bit. Raises FormatError."""
        self.read_all()
        return self._numbers[self._buckets :]


class SysvHash:
    """The table DT_HASH; `end` is the number of symbols that it gives."""

    __slots__ = ("_at", "_buckets", "_numbers", "_order", "_size", "_source", "end")

    def __init__(self, image: ElfReader, at: int) -> None:
        """Read the table's head, at `at`. Raises FormatError if it is invalid."""
        arch = image.header.arch if image.header else None
        is_wide = arch is not None and arch.hash_word == 8
        self._size = 8 if is_wide else 4
        self._source = image.source
        self._at = at
        self._order = image.encoding.order
        self._numbers = numbers(
            take(image.source, at, 2 * self._size, "DT_HASH"), self._size, self._order
        )
        self._buckets, self.end = int(self._numbers[0]), int(self._numbers[1])

    def _number(self, place: int) -> int:
        if place < len(self._numbers):
            return int(self._numbers[place])
        at = self._at + place * self._size
        return int(
            numbers(take(self._source, at, self._size, "DT_HASH"), self._size, self._order)[0]
        )

    def indices(self, name: Name) -> list[int]:
        """Return the symbols that may have this name, in order. Raises FormatError."""
        indices: list[int] = []
        if not self._buckets:
            return indices
        end = min(self.end, _MAX_SYMBOLS)
        index = self._number(2 + name.sysv % self._buckets)
        while index:
            if index >= end:
                raise self._broken(f"a chain points to symbol {index}")
            if len(indices) >= end:
                raise self._broken("a chain runs in a circle")
            indices.append(index)
            index = self._number(2 + self._buckets + index)
        return indices

    def _broken(self, why: str) -> Exception:
        return broken(self._source, "DT_HASH", self._at, why)

    def read_all(self) -> None:
        """Read the whole table, as far as the source has it."""
        count = min(2 + self._buckets + self.end, _MAX_BUCKETS + _MAX_SYMBOLS)
        if len(self._numbers) < count:
            data = self._source.read(self._at, count * self._size)
            self._numbers = numbers(data, self._size, self._order)


def open_hash(image: ElfReader) -> GnuHash | SysvHash | None:
    """Return the hash table that a loader would use, None if there is none.

    Raises FormatError if it is damaged.
    """
    at = image.locate_pointer(c.DT_GNU_HASH)
    if at is not None:
        return GnuHash(image, at)
    at = image.locate_pointer(c.DT_HASH)
    return None if at is None else SysvHash(image, at)


# Symbol versions: the numbers in DT_VERSYM, and their names from DT_VERNEED and DT_VERDEF.
#
# They are read as glibc does (_dl_check_map_versions of elf/dl-version.c). A chain ends where its
# last entry says so, whatever DT_VERNEEDNUM and DT_VERDEFNUM are. The entry VER_FLG_BASE, which
# names the file itself, is not a version. Names are read on request, because a caller needs one of
# hundreds.

_MAX = 65536  # entries; version numbers have 15 bits
_MAX_NAMES = 1 << 22  # bytes
_VER_FLG_BASE = 1


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
