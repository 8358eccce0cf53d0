# SPDX-License-Identifier: Apache-2.0
"""What an image offers to others, asked as a loader asks: by hash table, type and version.

glibc: check_match and do_lookup_x of elf/dl-lookup.c. A table is read once, in a few pieces, and
needs no open file afterwards; a name that is not there costs one look at the bloom filter.
"""

from __future__ import annotations

import os
import sys
from array import array
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.hashes import gnu_hash, symbol_count
from soscope.binfmt.elf.longnames import SHORT, LongNames
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken, take

_MAX_BUCKETS = 1 << 26
_MAX_SYMBOLS = 1 << 24
_MAX_STRINGS = 1 << 30
_MAX_VERSIONS = 1 << 15
_PIECE = 64  # bytes of a version's definition, generously
_TYPES = frozenset(
    (c.STT_NOTYPE, c.STT_OBJECT, c.STT_FUNC, c.STT_COMMON, c.STT_TLS, c.STT_GNU_IFUNC)
)
_BINDINGS = frozenset((c.STB_GLOBAL, c.STB_WEAK, c.STB_GNU_UNIQUE))
_HIDDEN = frozenset((c.STV_HIDDEN, c.STV_INTERNAL))
_VER_FLG_BASE = 1
_U32 = "I" if array("I").itemsize == 4 else "L"


class Wanted:
    """A name to look for: made once, asked of many images."""

    __slots__ = ("hash", "name")

    def __init__(self, name: str) -> None:
        raw = os.fsencode(name)
        self.name = raw + b"\0"
        self.hash = gnu_hash(raw)


class Exports:
    """The dynamic symbols of an image that others can be bound to."""

    __slots__ = (
        "_bloom",
        "_buckets",
        "_by_name",
        "_chain",
        "_encoding",
        "_first",
        "_shift",
        "_strings",
        "_symbols",
        "_versions",
        "_versym",
        "_word_bits",
    )

    def __init__(self, image: ElfReader) -> None:
        """Read the tables of an image. Raises FormatError where they are damaged."""
        self._encoding = image.encoding
        self._word_bits = image.encoding.bits
        self._by_name: dict[bytes, list[int]] | None = None
        self._chain = array(_U32)
        self._buckets = array(_U32, [0])
        self._bloom = array("Q", [(1 << 64) - 1])  # which lets everything pass
        self._first = self._shift = 0
        count: int
        if image.locate_pointer(c.DT_GNU_HASH) is not None:
            count = self._read_gnu_hash(image)
        else:
            self._by_name = {}
            count = min(symbol_count(image) or 0, _MAX_SYMBOLS)
        symbols = image.locate_pointer(c.DT_SYMTAB)
        strings, size = image.locate_pointer(c.DT_STRTAB), image.dynamic.get(c.DT_STRSZ)
        versym = image.locate_pointer(c.DT_VERSYM)
        if not count or symbols is None or strings is None or not size:
            self._symbols = self._strings = b""
            self._versym, self._versions = None, {}
            self._by_name = {}
            return
        if size > _MAX_STRINGS:
            raise broken(image.source, "DT_STRSZ", strings, f"{size} bytes")
        length = count * image.encoding.symbol.size
        self._symbols = take(image.source, symbols, length, "DT_SYMTAB")
        self._strings = take(image.source, strings, size, "DT_STRTAB")
        self._versym = None
        if versym is not None:
            self._versym = _numbers(take(image.source, versym, 2 * count, "DT_VERSYM"), image, "H")
        self._versions = _defined_versions(image, self._strings) if versym is not None else {}
        if self._by_name is not None:
            self._index()

    def _read_gnu_hash(self, image: ElfReader) -> int:
        """Read DT_GNU_HASH; return the number of symbols up to the last one in it."""
        at = image.locate_pointer(c.DT_GNU_HASH) or 0
        source = image.source
        buckets: int
        first: int
        head = Struct(image.encoding.order + "4I")
        buckets, first, words, shift = head.unpack(take(source, at, 16, "DT_GNU_HASH"))
        if not 0 < buckets < _MAX_BUCKETS or not 0 < words < _MAX_BUCKETS or words & words - 1:
            raise broken(source, "DT_GNU_HASH", at, f"{buckets} buckets, {words} bloom words")
        width = image.encoding.word.size * words
        data = take(source, at + 16, width + 4 * buckets, "DT_GNU_HASH")
        self._first, self._shift = first, shift
        self._bloom = _numbers(data[:width], image, "Q" if self._word_bits == 64 else _U32)
        self._buckets = _numbers(data[width:], image, _U32)
        last = max(self._buckets)
        if not last:
            return 0
        if not first <= last < _MAX_SYMBOLS:
            raise broken(source, "DT_GNU_HASH", at, f"a bucket points to symbol {last}")
        chain = at + 16 + len(data)
        have = take(source, chain, 4 * (last - first), "DT_GNU_HASH chain")
        size = _PIECE
        while True:  # only the chain itself says where the last one ends
            piece = source.read(chain + len(have), size)
            piece = piece[: len(piece) & ~3]
            size *= 2
            if not piece or len(have) > 4 * _MAX_SYMBOLS:
                raise broken(source, "DT_GNU_HASH", chain, "a chain has no end")
            ends = [index for index, end in enumerate(_numbers(piece, image, _U32)) if end & 1]
            have += piece[: 4 * (ends[0] + 1)] if ends else piece
            if ends:
                break
        self._chain = _numbers(have, image, _U32)
        return first + len(self._chain)

    def _index(self) -> None:
        """Put the names of all symbols into a dictionary: without DT_GNU_HASH, which is rare."""
        assert self._by_name is not None
        layout = self._encoding.symbol
        strings, long = self._strings, LongNames(self._strings)
        for index, fields in enumerate(layout.iter_unpack(self._symbols)):
            end = strings.find(b"\0", fields[0], fields[0] + SHORT)
            name = strings[fields[0] : end] if end >= 0 else long.read(fields[0])
            if index and name:
                self._by_name.setdefault(name + b"\0", []).append(index)

    def has(self, wanted: Wanted, version: str | None, *, any_version: bool = False) -> bool:
        """Say whether a reference to this name, with or without a version, is bound here.

        With `any_version` it is by musl's rule: the default version, whichever is asked for.
        """
        value = wanted.hash
        bits = self._word_bits
        bloom = self._bloom  # nearly all names are in another library: they end here
        word = bloom[value // bits & len(bloom) - 1]
        if not word >> value % bits & word >> (value >> self._shift) % bits & 1:
            return False
        found = self._named(wanted)
        return bool(found) and self._matches(found, version, any_version=any_version)

    def _named(self, wanted: Wanted) -> list[int]:
        """Return the symbols of a name."""
        if self._by_name is not None:
            return self._by_name.get(wanted.name, [])
        buckets = self._buckets
        found: list[int] = []
        start = buckets[wanted.hash % len(buckets)]
        if not start:
            return found
        chain, place = self._chain, start - self._first
        value = wanted.hash | 1
        unpack, step = self._encoding.u32.unpack_from, self._encoding.symbol.size
        while 0 <= place < len(chain):
            link = chain[place]
            if link | 1 == value:
                number = place + self._first
                (name,) = unpack(self._symbols, number * step)
                if self._strings.startswith(wanted.name, name):
                    found.append(number)
            if link & 1:
                break
            place += 1
        return found

    def _matches(self, indices: list[int], version: str | None, *, any_version: bool) -> bool:
        defaults = 0
        for index in indices:
            if not self._is_definition(index):
                continue
            if self._versym is None:
                return True
            raw = self._versym[index]
            number, is_hidden = raw & ~c.VERSYM_HIDDEN, bool(raw & c.VERSYM_HIDDEN)
            if any_version:
                if not is_hidden:
                    return True
                continue
            if version is None:
                # 0 and 1 are without version, 2 is the oldest; of later ones it is the default
                if number < 3:
                    return True
                defaults += not is_hidden
                continue
            name = self._versions.get(number)
            if name == version or (name is None and not is_hidden):
                return True
        return defaults == 1

    def _is_definition(self, index: int) -> bool:
        coding = self._encoding
        fields = coding.symbol.unpack_from(self._symbols, index * coding.symbol.size)
        if coding.bits == 64:
            _, info, other, section, value, _ = fields
        else:
            _, value, _, info, other, section = fields
        kind = info & 15
        if section == c.SHN_UNDEF or kind not in _TYPES or info >> 4 not in _BINDINGS:
            return False
        if other & 3 in _HIDDEN:
            return False
        return bool(value) or section == c.SHN_ABS or kind == c.STT_TLS


def _numbers(data: bytes, image: ElfReader, code: str) -> array[int]:
    found = array(code, data)
    if image.encoding.order != ("<" if sys.byteorder == "little" else ">"):
        found.byteswap()
    return found


def _defined_versions(image: ElfReader, strings: bytes) -> dict[int, str]:
    """Return number -> name of DT_VERDEF, but for that of the file itself."""
    at = image.locate_pointer(c.DT_VERDEF)
    count = min(image.dynamic.get(c.DT_VERDEFNUM) or 0, _MAX_VERSIONS)
    names: dict[int, str] = {}
    if at is None or not count:
        return names
    # Elfxx_Verdef: version, flags, ndx, count, hash, aux, next; its first Elfxx_Verdaux: name
    define = Struct(image.encoding.order + "HHHHIII")
    data = image.source.read(at, count * _PIECE)
    where = 0
    for _ in range(count):
        if where + define.size > len(data):
            data += take(image.source, at + len(data), where + _PIECE - len(data), "DT_VERDEF")
        _, flags, number, has, _, aux, following = define.unpack_from(data, where)
        if has and not flags & _VER_FLG_BASE:
            raw = data[where + aux : where + aux + 4]
            if len(raw) < 4:
                raw = take(image.source, at + where + aux, 4, "DT_VERDEF")
            (name,) = image.encoding.u32.unpack(raw)
            end = strings.find(b"\0", name, name + SHORT)
            names[number & ~c.VERSYM_HIDDEN] = os.fsdecode(strings[name:end]) if end >= 0 else ""
        if not following:
            break
        where += following
    return names


def undefined_weak(image: ElfReader) -> set[str]:
    """Return the names that the image refers to but can do without.

    Raises FormatError where its tables are damaged.
    """
    symbols, strings = image.locate_pointer(c.DT_SYMTAB), image.locate_pointer(c.DT_STRTAB)
    size = image.dynamic.get(c.DT_STRSZ)
    if symbols is None or strings is None or not size:
        return set()
    coding = image.encoding
    length = _undefined_end(image) * coding.symbol.size
    table = take(image.source, symbols, length, "DT_SYMTAB")
    names = take(image.source, strings, min(size, _MAX_STRINGS), "DT_STRTAB")
    found, long = set(), LongNames(names)
    for fields in coding.symbol.iter_unpack(table):
        info, section = (fields[1], fields[3]) if coding.bits == 64 else (fields[3], fields[5])
        if section == c.SHN_UNDEF and info >> 4 == c.STB_WEAK:
            end = names.find(b"\0", fields[0], fields[0] + SHORT)
            name = names[fields[0] : end] if end >= 0 else long.read(fields[0])
            if name:
                found.add(os.fsdecode(name))
    return found


def _undefined_end(image: ElfReader) -> int:
    """Return an index behind the last undefined symbol: DT_GNU_HASH begins behind them."""
    at = image.locate_pointer(c.DT_GNU_HASH)
    if at is not None:
        data = take(image.source, at, 8, "DT_GNU_HASH")
        (first,) = image.encoding.u32.unpack_from(data, 4)
        if first > 1:
            return min(int(first), _MAX_SYMBOLS)
    from soscope.binfmt.elf.symbols import SymbolTable

    return len(SymbolTable(image))
