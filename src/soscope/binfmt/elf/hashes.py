# SPDX-License-Identifier: Apache-2.0
"""DT_GNU_HASH and DT_HASH: from a name to the symbols that may have it.

DT_GNU_HASH: u32 buckets, first symbol, bloom words, shift; bloom filter in address-sized
words; u32 bucket[]; u32 chain[] from the first symbol on, whose lowest bit ends a chain.
DT_HASH: u32 buckets, symbols; u32 bucket[]; u32 chain[]. On s390x and Alpha all of them are u64.
DT_MIPS_XHASH, DT_GNU_HASH of MIPS, is not read: there the number of symbols has a tag of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken, take

_MAX_BUCKETS = 1 << 26
_MAX_SYMBOLS = 1 << 26
_CHAIN_PIECE = 16


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


def candidates(image: ElfReader, name: bytes) -> Iterator[int]:
    """Give the indices of symbols that may be called `name`; the names are not compared."""
    if image.locate_pointer(c.DT_GNU_HASH) is not None:
        return _gnu_candidates(image, gnu_hash(name))
    if image.locate_pointer(c.DT_HASH) is not None:
        return _sysv_candidates(image, sysv_hash(name))
    return iter(range(1, min(symbol_count(image) or 0, _MAX_SYMBOLS)))


def _u32(image: ElfReader, at: int, field: str) -> int:
    return int(image.encoding.u32.unpack(take(image.source, at, 4, field))[0])


def sysv_word(image: ElfReader) -> Struct:
    """Return the layout of one number in DT_HASH."""
    number = image.header.machine if image.header else 0
    is_wide = image.encoding.bits == 64 and number in (c.EM_S390, c.EM_ALPHA)
    return image.encoding.word if is_wide else image.encoding.u32


def _sysv(image: ElfReader, at: int, index: int, field: str) -> int:
    """Return one number of DT_HASH, which lies at `at`."""
    word = sysv_word(image)
    return int(word.unpack(take(image.source, at + index * word.size, word.size, field))[0])


def _gnu_table(image: ElfReader) -> tuple[int, int, int, int, int]:
    """Return (buckets, first symbol, offset of bucket[], offset of chain[], offset)."""
    at = image.locate_pointer(c.DT_GNU_HASH) or 0
    head = take(image.source, at, 16, "DT_GNU_HASH")
    unpack = image.encoding.u32.unpack_from
    buckets, first, bloom = unpack(head, 0)[0], unpack(head, 4)[0], unpack(head, 8)[0]
    if not 0 < buckets < _MAX_BUCKETS or bloom > _MAX_BUCKETS:
        raise broken(image.source, "DT_GNU_HASH", at, f"{buckets} buckets, {bloom} bloom words")
    bucket = at + 16 + bloom * image.encoding.word.size
    return buckets, first, bucket, bucket + 4 * buckets, at


def _gnu_candidates(image: ElfReader, wanted: int) -> Iterator[int]:
    buckets, first, bucket, chain, at = _gnu_table(image)
    index = _u32(image, bucket + 4 * (wanted % buckets), "DT_GNU_HASH bucket")
    if not index:
        return
    if index < first:
        raise broken(image.source, "DT_GNU_HASH", at, f"a bucket points to symbol {index}")
    while index < _MAX_SYMBOLS:
        value = _u32(image, chain + 4 * (index - first), "DT_GNU_HASH chain")
        if value | 1 == wanted | 1:
            yield index
        if value & 1:
            return
        index += 1
    raise broken(image.source, "DT_GNU_HASH", at, "a chain has no end")


def _sysv_candidates(image: ElfReader, wanted: int) -> Iterator[int]:
    at = image.locate_pointer(c.DT_HASH) or 0
    buckets = _sysv(image, at, 0, "DT_HASH")
    symbols = min(_sysv(image, at, 1, "DT_HASH"), _MAX_SYMBOLS)
    if not 0 < buckets < _MAX_BUCKETS:
        raise broken(image.source, "DT_HASH", at, f"{buckets} buckets")
    index = _sysv(image, at, 2 + wanted % buckets, "DT_HASH bucket")
    for _ in range(symbols):
        if not index:
            return
        if index >= symbols:
            raise broken(image.source, "DT_HASH", at, f"a chain points to symbol {index}")
        yield index
        index = _sysv(image, at, 2 + buckets + index, "DT_HASH chain")
    if index:
        raise broken(image.source, "DT_HASH", at, "a chain runs in a circle")


def symbol_count(image: ElfReader) -> int | None:
    """Return the number of symbols that DT_HASH gives, or DT_MIPS_SYMTABNO; None without both."""
    at = image.locate_pointer(c.DT_HASH)
    if at is not None:
        return _sysv(image, at, 1, "DT_HASH")
    number = image.header.machine if image.header else 0
    return image.dynamic.get(c.DT_MIPS_SYMTABNO) if number == c.EM_MIPS else None


def exported_end(image: ElfReader) -> int:
    """Return the index behind the last symbol in DT_GNU_HASH, 0 where it has none."""
    if image.locate_pointer(c.DT_GNU_HASH) is None:
        return 0
    buckets, first, bucket, chain, at = _gnu_table(image)
    data = take(image.source, bucket, 4 * buckets, "DT_GNU_HASH bucket")
    last = int(max(image.encoding.u32.iter_unpack(data))[0])
    if not last:
        return 0
    if last < first:
        raise broken(image.source, "DT_GNU_HASH", at, f"a bucket points to symbol {last}")
    while last < _MAX_SYMBOLS:
        where = chain + 4 * (last - first)
        piece = image.source.read(where, 4 * _CHAIN_PIECE)
        if len(piece) < 4:
            take(image.source, where, 4, "DT_GNU_HASH chain")
        for (value,) in image.encoding.u32.iter_unpack(piece[: len(piece) & ~3]):
            last += 1
            if value & 1:
                return last
    raise broken(image.source, "DT_GNU_HASH", at, "a chain has no end")
