# SPDX-License-Identifier: Apache-2.0
"""Chained fixups (LC_DYLD_CHAINED_FIXUPS) and threaded binds, which use the same pointers.

The start of each page's first pointer is listed, and each pointer has the distance to the next. A
pointer is a rebase (an address in the image) or a bind (the index of an import). On arm64e both
may be signed.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from struct import Struct, unpack_from
from typing import NamedTuple

from soscope.binfmt.macho.encoding import DECODING
from soscope.binfmt.macho.image import MachoImage
from soscope.binfmt.macho.records import CHAINED_BIND, KEYS, THREADED_BIND, Bind, Ranges
from soscope.errors import FormatError
from soscope.model.filemap import Signed

_NONE = 0xFFFF
_MULTI = 0x8000
_LAST = 0x8000


class Format(NamedTuple):
    """One pointer format: the positions of the fields in a word.

    `family` is "arm64e", "64", "32" or "rebase". `stride` is the unit of `next`. If `relative` is
    true, the target of a rebase counts from the image's base.
    """

    family: str
    word: int
    stride: int
    next_shift: int
    next_mask: int
    ordinal_mask: int
    target_mask: int
    relative: bool


# By DYLD_CHAINED_PTR_…; formats without binds (kernels, firmware, shared caches) are "rebase".
FORMATS = {
    1: Format("arm64e", 8, 8, 51, 0x7FF, 0xFFFF, (1 << 43) - 1, False),  # ARM64E
    2: Format("64", 8, 4, 51, 0xFFF, 0xFFFFFF, (1 << 36) - 1, False),  # 64
    3: Format("32", 4, 4, 26, 0x1F, 0xFFFFF, (1 << 26) - 1, False),  # 32
    4: Format("rebase", 4, 4, 30, 0x3, 0, (1 << 30) - 1, True),  # 32_CACHE
    5: Format("rebase", 4, 4, 26, 0x3F, 0, (1 << 26) - 1, False),  # 32_FIRMWARE
    6: Format("64", 8, 4, 51, 0xFFF, 0xFFFFFF, (1 << 36) - 1, True),  # 64_OFFSET
    7: Format("arm64e", 8, 4, 51, 0x7FF, 0xFFFF, (1 << 43) - 1, True),  # ARM64E_KERNEL
    8: Format("rebase", 8, 4, 51, 0xFFF, 0, (1 << 30) - 1, True),  # 64_KERNEL_CACHE
    9: Format("arm64e", 8, 8, 51, 0x7FF, 0xFFFF, (1 << 43) - 1, True),  # ARM64E_USERLAND
    10: Format("arm64e", 8, 4, 51, 0x7FF, 0xFFFF, (1 << 43) - 1, False),  # ARM64E_FIRMWARE
    11: Format("rebase", 8, 1, 51, 0xFFF, 0, (1 << 30) - 1, True),  # X86_64_KERNEL_CACHE
    12: Format("arm64e", 8, 8, 51, 0x7FF, 0xFFFFFF, (1 << 43) - 1, True),  # ARM64E_USERLAND24
    13: Format("rebase", 8, 8, 52, 0x7FF, 0, (1 << 34) - 1, True),  # ARM64E_SHARED_CACHE
}
_THREADED = FORMATS[1]


class Import(NamedTuple):
    """One import, to which pointers refer by index."""

    name: str
    ordinal: int
    weak: bool
    addend: int


class Starts(NamedTuple):
    """Where the chains of one segment begin.

    `pages` is the number of pages. The bytes from `at` to `end` of the fixups' data have a 16-bit
    word for each page, followed by further starts for pages with several chains.
    """

    vaddr: int
    page_size: int
    format: int
    pages: int
    at: int
    end: int
    most: int  # 32-bit: the highest value that is an address


class Fixups:
    """The LC_DYLD_CHAINED_FIXUPS of one image, with its `segments` and `imports`, read at once."""

    __slots__ = ("_data", "_image", "_mask", "_u16", "imports", "segments")

    def __init__(self, image: MachoImage) -> None:
        self._image = image
        self._mask = (1 << image.encoding.bits) - 1
        self._u16 = Struct(image.encoding.order + "H").unpack_from
        self._data = b""
        self.segments: list[Starts] = []
        self.imports: Sequence[Import] = ()
        offset, size = image.chained
        if not size:
            return
        try:
            data = image.table(offset, size, "chained fixups")
        except FormatError as error:
            image.missed(error)
            data = image.source.read(image.start + offset, max(0, min(size, image.size - offset)))
        order = image.encoding.order
        self._data = data
        if len(data) < 28:
            image.miss("chained fixups: cut off")
            return
        _, starts, imports, symbols, count, form, packed = unpack_from(order + "7I", data)
        self._read_starts(data, starts, order)
        if packed:
            image.miss(f"chained fixups: names are compressed (format {packed})")
            return
        self.imports = self._read_imports(data, imports, symbols, count, form, order)

    # ---- imports ----

    def _read_imports(
        self, data: bytes, at: int, symbols: int, count: int, form: int, order: str
    ) -> list[Import]:
        step = {1: 4, 2: 8, 3: 16}.get(form)
        if step is None:
            self._image.miss(f"chained fixups: imports of format {form} are not known")
            return []
        room = max(0, len(data) - at) // step
        if count > room:
            self._image.miss(f"chained fixups: {count} imports, there is room for {room}")
        rows = data[at : at + min(count, room) * step]
        imports = []
        if form == 3:
            for word, addend in Struct(order + "Qq").iter_unpack(rows):
                ordinal = word & 0xFFFF
                ordinal -= 0x10000 if ordinal > 0xFFF0 else 0
                name = self._name(data, symbols + (word >> 32))
                imports.append(Import(name, ordinal, bool(word >> 16 & 1), addend))
            return imports
        layout = Struct(order + ("Ii" if form == 2 else "I"))
        for word, *rest in layout.iter_unpack(rows):
            ordinal = word & 0xFF
            ordinal -= 0x100 if ordinal > 0xF0 else 0
            name = self._name(data, symbols + (word >> 9))
            imports.append(Import(name, ordinal, bool(word >> 8 & 1), rest[0] if rest else 0))
        return imports

    def _name(self, data: bytes, at: int) -> str:
        end = data.find(b"\0", at)
        if end < 0 or at >= len(data):
            self._image.miss("chained fixups: a name lies beyond the end")
            return ""
        return data[at:end].decode(*DECODING) if self._image.afford(end - at) else ""

    # ---- starts ----

    def _read_starts(self, data: bytes, at: int, order: str) -> None:
        image = self._image
        try:
            (count,) = unpack_from(order + "I", data, at)
            if count > len(image.segments):
                image.miss(f"chained fixups: {count} segments, the image has {len(image.segments)}")
                count = len(image.segments)
            offsets = unpack_from(f"{order}{count}I", data, at + 4)
        except struct.error:
            image.miss("chained fixups: the segments' table is cut off")
            return
        # In a hostile file, starts may overlap.
        left = len(data)
        for number, offset in enumerate(offsets):
            if not offset:
                continue
            try:
                starts = self._read_segment(data, at + offset, order)
            except struct.error:
                image.miss(f"chained fixups: the starts of segment {number} are cut off")
                continue
            left -= 22 + 2 * starts.pages
            if left < 0:
                image.miss(f"chained fixups: the starts of segment {number} are those of others")
                return
            if starts.format not in FORMATS:
                image.miss(f"chained fixups: pointers of format {starts.format} are not known")
            elif starts.page_size:
                self.segments.append(starts)

    def _read_segment(self, data: bytes, at: int, order: str) -> Starts:
        size, page_size, form, offset, most, pages = unpack_from(order + "IHHQIH", data, at)
        if at + 22 + 2 * pages > len(data):
            raise struct.error
        # Pages with several chains refer to an index behind the pages' own entries.
        end = max(at + 22 + 2 * pages, min(at + size, len(data)))
        vaddr = self._image.base + offset & self._mask
        return Starts(vaddr, page_size, form, pages, at + 22, end, most)

    # ---- chains ----

    def words(self, wanted: Ranges) -> Iterator[tuple[int, int, Starts]]:
        """Yield (address, raw word, starts) of each pointer on a page with `wanted` ones.

        Pointers of such pages come even if they are not wanted themselves.
        """
        # In a hostile file, chains may overlap.
        left = 2 * (self._image.size // 4) + 64
        room = 2 * self._image.size + (1 << 17)  # and pages may overlap, too
        for starts in self.segments:
            form = FORMATS[starts.format]
            for page in self._pages(starts, wanted):
                firsts = list(self._firsts(starts, page))
                if not firsts:
                    continue
                vaddr = starts.vaddr + page * starts.page_size
                # A pointer may extend over the page's end.
                data = self._image.read(vaddr, starts.page_size + form.word)
                room -= len(data)
                if room < 0:
                    self._image.miss("chained fixups: more pages than the image has")
                    return
                for first in firsts:
                    left -= yield from self._chain(starts, form, vaddr, data, first)
                    if left < 0:
                        self._image.miss("chained fixups: more pointers than the image has")
                        return

    def _pages(self, starts: Starts, wanted: Ranges) -> Iterator[int]:
        pages = range(starts.pages)
        if wanted.pairs is None:
            yield from pages
            return
        chosen: set[int] = set()
        for start, end in wanted.pairs:
            first = (start - starts.vaddr) // starts.page_size
            last = (end - 1 - starts.vaddr) // starts.page_size
            chosen.update(pages[max(0, first) : max(0, last + 1)])
        yield from sorted(chosen)

    def _firsts(self, starts: Starts, page: int) -> Iterator[int]:
        (first,) = self._u16(self._data, starts.at + 2 * page)
        if first == _NONE:
            return
        if not first & _MULTI:
            yield first
            return
        index = max(first & ~_MULTI, starts.pages)
        for at in range(starts.at + 2 * index, starts.end - 1, 2):
            (entry,) = self._u16(self._data, at)
            yield entry & ~_LAST
            if entry & _LAST:
                return

    def _chain(
        self, starts: Starts, form: Format, vaddr: int, data: bytes, at: int
    ) -> Generator[tuple[int, int, Starts], None, int]:
        read = Struct(self._image.encoding.order + ("Q" if form.word == 8 else "I")).unpack_from
        shift, mask, stride = form.next_shift, form.next_mask, form.stride
        end = len(data) - form.word
        length = 1
        while at <= end:
            (word,) = read(data, at)
            yield vaddr + at & self._mask, word, starts
            step = (word >> shift & mask) * stride
            if not step:
                return length
            at += step
            length += 1
        self._image.miss(f"chained fixups: a chain leaves its page at {vaddr + at:#x}")
        return length

    def binds(self, wanted: Ranges) -> Iterator[Bind]:
        """Yield the binds at `wanted` addresses."""
        for vaddr, word, starts in self.words(wanted):
            if is_bind(word, FORMATS[starts.format]) and wanted.has(vaddr):
                yield self.bind(vaddr, word, starts)

    def bind(self, vaddr: int, word: int, starts: Starts) -> Bind:
        """Return the bind that the pointer `word` encodes."""
        form = FORMATS[starts.format]
        number = word & form.ordinal_mask
        if number >= len(self.imports):
            self._image.miss(
                f"chained fixups: the pointer at {vaddr:#x} names import {number} "
                f"of {len(self.imports)}"
            )
            return Bind(vaddr, "", None, CHAINED_BIND)
        name, ordinal, weak, addend = self.imports[number]
        signed = signature(word, form)
        if signed is None:
            addend += _addend(word, form)
        return Bind(vaddr, name, ordinal, CHAINED_BIND, addend, weak, signed)

    def around(self, vaddr: int) -> Starts | None:
        """Return the segment with chains that contains `vaddr`, None if there is none."""
        for starts in self.segments:
            if 0 <= vaddr - starts.vaddr < starts.pages * starts.page_size:
                return starts
        return None

    def target(self, word: int, starts: Starts) -> int | None:
        """Return the target address of the pointer `word`, a rebase; None for a plain number."""
        form = FORMATS[starts.format]
        base = self._image.base
        if form.family == "arm64e" and word >> 63:
            return base + (word & 0xFFFFFFFF) & self._mask
        if form.family == "32" and (word & form.target_mask) > starts.most > 0:
            return None
        return (word & form.target_mask) + (base if form.relative else 0) & self._mask


def is_bind(word: int, form: Format) -> bool:
    """Return whether a pointer is a bind."""
    if form.family == "arm64e":
        return bool(word >> 62 & 1)
    if form.family == "64":
        return bool(word >> 63)
    return form.family == "32" and bool(word >> 31)


def signature(word: int, form: Format) -> Signed | None:
    """Return how the pointer is signed, None if it is not."""
    if form.family != "arm64e" or not word >> 63:
        return None
    return Signed(KEYS[word >> 49 & 3], word >> 32 & 0xFFFF, bool(word >> 48 & 1))


def _addend(word: int, form: Format) -> int:
    if form.family == "arm64e":
        value = word >> 32 & 0x7FFFF
        return value - 0x80000 if value & 0x40000 else value
    if form.family == "64":
        return word >> 24 & 0xFF
    return word >> 20 & 0x3F


# ---- threaded binds ----


def threaded(
    image: MachoImage,
    vaddr: int,
    table: Sequence[tuple[str, int | None, int, bool]],
    wanted: Ranges,
    most: int,
) -> Generator[Bind, None, int]:
    """Yield the binds of the chain that begins at `vaddr` (BIND_SUBOPCODE_THREADED_APPLY).

    `table` has name, ordinal, addend and "is weak" of each symbol, by index. The generator's
    return value is the number of pointers in the chain, at most `most`.
    """
    read = Struct(image.encoding.order + "Q").unpack
    for length in range(1, most + 1):
        data = image.read(vaddr, 8)
        if len(data) < 8:
            image.miss(f"threaded binds: a chain leaves its segment at {vaddr:#x}")
            return length
        (word,) = read(data)
        if is_bind(word, _THREADED) and wanted.has(vaddr):
            number = word & 0xFFFF
            if number < len(table):
                name, ordinal, addend, weak = table[number]
                signed = signature(word, _THREADED)
                yield Bind(vaddr, name, ordinal, THREADED_BIND, addend, weak, signed)
            else:
                image.miss(f"threaded binds: symbol {number} of {len(table)} at {vaddr:#x}")
        step = (word >> _THREADED.next_shift & _THREADED.next_mask) * 8
        if not step:
            return length
        vaddr += step
    return most + 1
