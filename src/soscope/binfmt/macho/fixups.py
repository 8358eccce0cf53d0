# SPDX-License-Identifier: Apache-2.0
"""The pointers that dyld fills: bind opcodes, chained fixups, relocations, exports."""

from __future__ import annotations

import struct
from struct import Struct, unpack_from
from typing import NamedTuple

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.image import (
    BIND,
    CHAINED_BIND,
    DECODING,
    EXTERNAL_RELOCATION,
    KEYS,
    LAZY_BIND,
    THREADED_BIND,
    WEAK_BIND,
    Bind,
    MachoImage,
    Ranges,
)
from soscope.binfmt.macho.symbols import MachoSymbols
from soscope.binfmt.source import sleb, uleb
from soscope.errors import FormatError
from soscope.model.arch import CPU_PPC64
from soscope.model.filemap import Signed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

# Chained fixups (LC_DYLD_CHAINED_FIXUPS) and threaded binds, which use the same pointers.
#
# The start of each page's first pointer is listed, and each pointer has the distance to the next. A
# pointer is a rebase (an address in the image) or a bind (the index of an import). On arm64e both
# may be signed.

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
                image.miss(f"chained fixups: segment {number} shares its starts with others")
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


# The export trie: the names that a Mach-O image exports, including re-exports.

_KIND = 0x03
_THREAD_LOCAL = 0x01
_ABSOLUTE = 0x02
_WEAK = 0x04
_REEXPORT = 0x08


class Export(NamedTuple):
    """One exported name, with its address, or with the ordinal of the library that defines it."""

    name: str
    vaddr: int
    kind: str  # "regular", "tls" or "absolute"
    weak: bool
    ordinal: int | None  # library of a re-export


def exports(image: MachoImage) -> Iterator[Export]:
    """Yield the exports in the trie's order; errors are reported in `image.partial`."""
    offset, size = image.exports
    if not size and image.dyld_info:
        offset, size = image.dyld_info[8:10]
    if not size:
        return
    try:
        data = image.table(offset, size, "export trie")
    except FormatError as error:
        image.missed(error)
        return
    # In a sound trie, one path leads to each node; a hostile trie has cycles.
    seen = {0}
    waiting = [(0, b"")]
    try:
        while waiting:
            at, name = waiting.pop()
            length, at = uleb(data, at)
            children = at + length
            if length and at + length <= len(data):
                if not image.afford(len(name)):
                    return
                yield _terminal(image, name.decode(*DECODING), data, at)
            count = data[children]
            at = children + 1
            below = []
            for _ in range(count):
                end = data.index(b"\0", at)
                edge = data[at:end]
                node, at = uleb(data, end + 1)
                if node in seen or node >= len(data):
                    image.miss(f"export trie: a way back at {at:#x}")
                    continue
                seen.add(node)
                if not image.afford(len(name) + len(edge)):
                    return
                below.append((node, name + edge))
            waiting.extend(reversed(below))
    except (IndexError, ValueError):
        image.miss("export trie: it ends within a node")


def _terminal(image: MachoImage, name: str, data: bytes, at: int) -> Export:
    flags, at = uleb(data, at)
    kind = {_THREAD_LOCAL: "tls", _ABSOLUTE: "absolute"}.get(flags & _KIND, "regular")
    number, _ = uleb(data, at)
    weak = bool(flags & _WEAK)
    if flags & _REEXPORT:
        return Export(name, 0, kind, weak, number)
    # A stub with a resolver has two addresses; the first is the stub's, which is the symbol's.
    return Export(name, image.base + number, kind, weak, None)


# Library of an ordinal of the two-level name space, or the reason why it has none.

SELF = 0
MAIN_EXECUTABLE = -1
FLAT_LOOKUP = -2
WEAK_LOOKUP = -3

# The reasons why a bind record, or a symbol, has no library.
REASONS = {
    SELF: "bound to this image itself",
    MAIN_EXECUTABLE: "looked up in the main executable",
    FLAT_LOOKUP: "flat look-up: the first loaded image that defines it",
    WEAK_LOOKUP: "weak coalescing: the first definition among all loaded images",
}
NO_RECORD = "no record names a library"
UNBOUND = "no record binds it"
NOT_TWO_LEVEL = "flat name space: the image is not linked with two levels"
DEFINED_HERE = "defined in this image"
NO_SUCH_ORDINAL = "the library's ordinal is beyond the libraries of the image"

# Special ordinals of a symbol table (nlist) are unsigned 8-bit numbers; bind records have others.
_SYMBOL_DYNAMIC_LOOKUP = 0xFE
_SYMBOL_EXECUTABLE = 0xFF


def of_symbol(description: int) -> int:
    """Return the ordinal in a symbol's `n_desc`, converted to an ordinal of bind records."""
    ordinal = description >> 8 & 0xFF
    if ordinal == _SYMBOL_DYNAMIC_LOOKUP:
        return FLAT_LOOKUP
    return MAIN_EXECUTABLE if ordinal == _SYMBOL_EXECUTABLE else ordinal


def library(ordinal: int | None, libraries: Sequence[str]) -> str:
    """Return the install name of an ordinal's library, "" if it has none."""
    if ordinal is None or not 0 < ordinal <= len(libraries):
        return ""
    return libraries[ordinal - 1]


def reason(ordinal: int | None, libraries: Sequence[str]) -> str:
    """Return why an ordinal has no library, "" if it has one."""
    if ordinal is None:
        return NO_RECORD
    if ordinal in REASONS:
        return REASONS[ordinal]
    return "" if 0 < ordinal <= len(libraries) else NO_SUCH_ORDINAL


# The opcodes of LC_DYLD_INFO: binds, weak binds and lazy binds, also threaded ones.
#
# Each of the three streams is a program for a small machine whose state is a library, a name, a
# type and an address. Counts in the streams come from the file, so this module never uses them as
# the bound of a loop.

_MASK = 0xFFFFFFFFFFFFFFFF

# constants BIND_OPCODE_…
_DONE = 0x00
_SET_DYLIB_ORDINAL_IMM = 0x10
_SET_DYLIB_ORDINAL_ULEB = 0x20
_SET_DYLIB_SPECIAL_IMM = 0x30
_SET_SYMBOL_TRAILING_FLAGS_IMM = 0x40
_SET_TYPE_IMM = 0x50
_SET_ADDEND_SLEB = 0x60
_SET_SEGMENT_AND_OFFSET_ULEB = 0x70
_ADD_ADDR_ULEB = 0x80
_DO_BIND = 0x90
_DO_BIND_ADD_ADDR_ULEB = 0xA0
_DO_BIND_ADD_ADDR_IMM_SCALED = 0xB0
_DO_BIND_ULEB_TIMES_SKIPPING_ULEB = 0xC0
_THREADED_CODE = 0xD0

_WEAK_IMPORT = 0x1

# index of each stream's offset in the load command
_STREAMS = {BIND: 2, WEAK_BIND: 4, LAZY_BIND: 6}


def binds(image: MachoImage, kind: str, wanted: Ranges) -> Iterator[Bind]:
    """Yield the records of the stream `kind` (BIND, WEAK_BIND, LAZY_BIND) at `wanted` addresses.

    Records come in the stream's order, and an address may come more than once. Errors are
    reported in `image.partial`.
    """
    if not image.dyld_info:
        return
    at = _STREAMS[kind]
    offset, size = image.dyld_info[at : at + 2]
    if not size:
        return
    try:
        data = image.table(offset, size, f"{kind} opcodes")
    except FormatError as error:
        image.missed(error)
        data = image.source.read(image.start + offset, max(0, min(size, image.size - offset)))
    yield from _Machine(image, kind, wanted, data).run()


class _Machine:
    """The state of the machine that runs the opcodes."""

    __slots__ = ("data", "image", "kind", "left", "name", "ordinal", "table", "wanted", "weak")

    def __init__(self, image: MachoImage, kind: str, wanted: Ranges, data: bytes) -> None:
        self.image = image
        self.kind = kind
        self.wanted = wanted
        self.data = data
        self.name = ""
        self.ordinal: int | None = WEAK_LOOKUP if kind == WEAK_BIND else SELF
        self.weak = False
        # Threaded binds refer to their symbols by index in this table.
        self.table: list[tuple[str, int | None, int, bool]] | None = None
        # A stream binds each pointer once, so twice the number of pointers is more than enough.
        self.left = 2 * (image.size // image.encoding.size) + 64

    def run(self) -> Iterator[Bind]:
        try:
            yield from self._run()
        except IndexError:
            self.image.miss(f"{self.kind} opcodes: they end within one of them")

    def _run(self) -> Iterator[Bind]:
        data = self.data
        pointer = self.image.encoding.size
        segments = self.image.segments
        end = len(data)
        lazy = self.kind == LAZY_BIND
        vaddr = addend = at = record = 0
        known = False  # whether an address has been set
        while at < end:
            opcode, immediate = data[at] & 0xF0, data[at] & 0x0F
            start = at
            at += 1
            if opcode == _DO_BIND:
                if self.table is not None:
                    self.table.append((self.name, self.ordinal, addend, self.weak))
                    continue
                if not known:
                    self._bad(start)
                    return
                if self.wanted.has(vaddr):
                    yield self._bind(vaddr, addend, record if lazy else None)
                vaddr = vaddr + pointer & _MASK
            elif opcode == _SET_SYMBOL_TRAILING_FLAGS_IMM:
                stop = data.find(b"\0", at)
                if stop < 0:
                    raise IndexError
                self.name = data[at:stop].decode(*DECODING)
                self.weak = bool(immediate & _WEAK_IMPORT)
                at = stop + 1
            elif opcode == _SET_DYLIB_ORDINAL_IMM:
                self.ordinal = immediate
            elif opcode == _SET_SEGMENT_AND_OFFSET_ULEB:
                offset, at = uleb(data, at)
                if immediate >= len(segments):
                    self._bad(start)
                    return
                vaddr = segments[immediate].vaddr + offset & _MASK
                known = True
            elif opcode == _SET_TYPE_IMM:
                pass  # a pointer, or an address in code (only old i386 images)
            elif opcode == _DONE:
                if not lazy:
                    return
                record = at
            elif opcode == _SET_DYLIB_ORDINAL_ULEB:
                self.ordinal, at = uleb(data, at)
            elif opcode == _SET_DYLIB_SPECIAL_IMM:
                self.ordinal = immediate - 16 if immediate else 0
            elif opcode == _SET_ADDEND_SLEB:
                addend, at = sleb(data, at)
            elif opcode == _ADD_ADDR_ULEB:
                offset, at = uleb(data, at)
                vaddr = vaddr + offset & _MASK
            elif opcode in (_DO_BIND_ADD_ADDR_ULEB, _DO_BIND_ADD_ADDR_IMM_SCALED):
                if not known:
                    self._bad(start)
                    return
                if self.wanted.has(vaddr):
                    yield self._bind(vaddr, addend, record if lazy else None)
                if opcode == _DO_BIND_ADD_ADDR_ULEB:
                    offset, at = uleb(data, at)
                else:
                    offset = immediate * pointer
                vaddr = vaddr + pointer + offset & _MASK
            elif opcode == _DO_BIND_ULEB_TIMES_SKIPPING_ULEB:
                count, at = uleb(data, at)
                skip, at = uleb(data, at)
                if not known or count * pointer > self.image.size:
                    self._bad(start)
                    return
                # In theory a skip may go backwards; no linker does that, and 64 bits wrap around.
                step = pointer + skip & _MASK
                for stretch in self.wanted.steps(vaddr, count, step):
                    for byte in stretch:
                        yield self._bind(byte & _MASK, addend, record if lazy else None)
                vaddr = vaddr + count * step & _MASK
            elif opcode == _THREADED_CODE and immediate == 0:
                _, at = uleb(data, at)
                self.table = []
            elif opcode == _THREADED_CODE and immediate == 1 and known:
                chain = threaded(self.image, vaddr, self.table or [], self.wanted, self.left)
                self.left -= yield from chain
            else:
                self._bad(start)
                return
            if self.left < 0:
                self.image.miss(f"{self.kind} opcodes: more records than the image has pointers")
                return

    def _bind(self, vaddr: int, addend: int, argument: int | None) -> Bind:
        self.left -= 1
        return Bind(vaddr, self.name, self.ordinal, self.kind, addend, self.weak, None, argument)

    def _bad(self, at: int) -> None:
        self.image.miss(f"{self.kind} opcodes: byte {self.data[at]:#04x} at {at:#x} has no sense")


# External relocations of images from before LC_DYLD_INFO: pointers in data, by symbol.

_SCATTERED = 0x80000000


def external_relocations(
    image: MachoImage, symbols: MachoSymbols, wanted: Ranges
) -> Iterator[Bind]:
    """Yield the external relocations at `wanted` addresses."""
    if not image.dysymtab:
        return
    offset, count = image.dysymtab[14:16]
    try:
        data = image.table(offset, count * 8, "external relocations")
    except FormatError as error:
        image.missed(error)
        return
    big = image.encoding.order == ">"
    base = _base(image)
    words = image.encoding.u32.iter_unpack(data)
    for (address,), (word,) in zip(words, words, strict=False):
        if address & _SCATTERED and image.encoding.bits == 32:
            continue
        number = word >> 8 if big else word & 0xFFFFFF
        external = word >> 4 & 1 if big else word >> 27 & 1
        place = base + address & (1 << image.encoding.bits) - 1
        if not external or not wanted.has(place):
            continue
        row = symbols.row(number)
        if row is None:
            image.miss(f"external relocations: symbol {number} of {len(symbols)}")
            continue
        ordinal = of_symbol(row.description)
        if not image.header.flags & c.MH_TWOLEVEL:
            ordinal = FLAT_LOOKUP
        weak = bool(row.description & c.N_WEAK_REF)
        yield Bind(place, symbols.name(row), ordinal, EXTERNAL_RELOCATION, 0, weak)


def _base(image: MachoImage) -> int:
    """Return the base of the addresses in relocations, by dyld's rules.

    It is the first segment, except in three cases, in which it is the first writable segment: on
    x86_64, in images whose segments may move apart, and in ppc64 images that extend beyond the 32
    bits of such an address.
    """
    first = image.segments[0].vaddr if image.segments else 0
    written = [segment for segment in image.segments if segment.protection & c.VM_PROT_WRITE]
    if image.header.cpu == CPU_PPC64:
        apart = any(segment.vaddr + segment.size - first > 1 << 32 for segment in written)
    else:
        apart = image.encoding.bits == 64 or bool(image.header.flags & c.MH_SPLIT_SEGS)
    return written[0].vaddr if written and apart else first
