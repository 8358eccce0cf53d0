# SPDX-License-Identifier: Apache-2.0
"""One Mach-O image: its header, its load commands, and the bytes at its addresses."""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import cache
from struct import Struct, unpack_from
from typing import NamedTuple

from soscope.binfmt.search import Spans
from soscope.binfmt.source import ByteSource, broken, take
from soscope.errors import FormatError
from soscope.model.arch import arch_of_cputype
from soscope.model.filemap import Signed

# Numbers of the Mach-O format, with their names in Apple's headers.

# ---- the header ----
MH_BINDATLOAD = 0x8
MH_PREBOUND = 0x10
MH_SPLIT_SEGS = 0x20
MH_TWOLEVEL = 0x80
MH_DYLIB_IN_CACHE = 0x80000000

FILE_KINDS = {
    1: "object",
    2: "executable",
    3: "fvmlib",
    4: "core",
    5: "preload",
    6: "dylib",
    7: "dylinker",
    8: "bundle",
    9: "dylib-stub",
    10: "dsym",
    11: "kext",
    12: "fileset",
    13: "gpu-executable",
    14: "gpu-dylib",
}

_SUBTYPE_MASK = 0x00FFFFFF  # the upper byte holds capabilities


def arch_name(cpu: int, subtype: int) -> str:
    """Return Apple's name of an architecture, "" for an unknown one."""
    arch = arch_of_cputype(cpu)
    if arch is None:
        return ""
    return arch.apple.get(subtype & _SUBTYPE_MASK) or arch.apple[-1]


# ---- load commands ----
LC_REQ_DYLD = 0x80000000
LC_SEGMENT = 0x1
LC_SYMTAB = 0x2
LC_DYSYMTAB = 0xB
LC_LOAD_DYLIB = 0xC
LC_ID_DYLIB = 0xD
LC_SEGMENT_64 = 0x19
LC_LOAD_WEAK_DYLIB = 0x18 | LC_REQ_DYLD
LC_UUID = 0x1B
LC_REEXPORT_DYLIB = 0x1F | LC_REQ_DYLD
LC_LAZY_LOAD_DYLIB = 0x20
LC_ENCRYPTION_INFO = 0x21
LC_DYLD_INFO = 0x22
LC_DYLD_INFO_ONLY = 0x22 | LC_REQ_DYLD
LC_LOAD_UPWARD_DYLIB = 0x23 | LC_REQ_DYLD
LC_ENCRYPTION_INFO_64 = 0x2C
LC_DYLD_EXPORTS_TRIE = 0x33 | LC_REQ_DYLD
LC_DYLD_CHAINED_FIXUPS = 0x34 | LC_REQ_DYLD

# Commands that define a library with an ordinal of the two-level name space, in command order.
DYLIB_COMMANDS = frozenset(
    (
        LC_LOAD_DYLIB,
        LC_LOAD_WEAK_DYLIB,
        LC_REEXPORT_DYLIB,
        LC_LAZY_LOAD_DYLIB,
        LC_LOAD_UPWARD_DYLIB,
    )
)

VM_PROT_WRITE = 2

# ---- sections ----
SECTION_TYPE = 0xFF
S_ZEROFILL = 0x1
S_CSTRING_LITERALS = 0x2
S_LITERAL_POINTERS = 0x5
S_NON_LAZY_SYMBOL_POINTERS = 0x6
S_LAZY_SYMBOL_POINTERS = 0x7
S_SYMBOL_STUBS = 0x8
S_GB_ZEROFILL = 0xC
S_LAZY_DYLIB_SYMBOL_POINTERS = 0x10
S_THREAD_LOCAL_REGULAR = 0x11
S_THREAD_LOCAL_ZEROFILL = 0x12
S_THREAD_LOCAL_VARIABLES = 0x13
S_THREAD_LOCAL_VARIABLE_POINTERS = 0x14

S_ATTR_PURE_INSTRUCTIONS = 0x80000000
S_ATTR_SELF_MODIFYING_CODE = 0x04000000
S_ATTR_SOME_INSTRUCTIONS = 0x00000400

# ---- symbols ----
INDIRECT_SYMBOL_LOCAL = 0x80000000
INDIRECT_SYMBOL_ABS = 0x40000000

N_STAB = 0xE0
N_TYPE = 0x0E
N_EXT = 0x01
N_UNDF = 0x0
N_INDR = 0xA
N_PBUD = 0xC
N_SECT = 0xE
N_WEAK_REF = 0x40
N_WEAK_DEF = 0x80


# How one Mach-O image stores numbers, and how to read them without trusting them.

DECODING = ("utf-8", "surrogateescape")


class MachoEncoding:
    """The struct formats of one Mach-O width and byte order.

    `bits` is 32 or 64, `order` is "<" or ">". `word` is one pointer; `size` its size in bytes.
    """

    __slots__ = ("bits", "header", "order", "section", "segment", "size", "symbol", "u32", "word")

    def __init__(self, bits: int, order: str) -> None:
        self.bits = bits
        self.order = order
        self.size = bits // 8
        self.u32 = Struct(order + "I")
        if bits == 64:
            self.word = Struct(order + "Q")
            self.header = Struct(order + "IIIIIII4x")
            self.segment = Struct(order + "8x16sQQQQiiII")
            self.section = Struct(order + "16s16sQQIIIIIII4x")
            self.symbol = Struct(order + "IBBHQ")
        else:
            self.word = Struct(order + "I")
            self.header = Struct(order + "IIIIIII")
            self.segment = Struct(order + "8x16sIIIIiiII")
            self.section = Struct(order + "16s16sIIIIIIIII")
            self.symbol = Struct(order + "IBBHI")


@cache
def encoding(bits: int, order: str) -> MachoEncoding:
    """Return the encoding for `bits` (32, 64) and `order` ("<", ">")."""
    return MachoEncoding(bits, order)


def text(data: bytes, at: int = 0) -> str:
    """Return the string in `data` from `at` to its zero byte, or to the end of `data`."""
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode(*DECODING)


# One Mach-O image: its header, its load commands, and the bytes at its addresses.

_MOST_REASONS = 100
_MAGICS = {
    b"\xfe\xed\xfa\xce": (32, ">"),
    b"\xce\xfa\xed\xfe": (32, "<"),
    b"\xfe\xed\xfa\xcf": (64, ">"),
    b"\xcf\xfa\xed\xfe": (64, "<"),
}


class MachoHeader(NamedTuple):
    """The mach_header of one image, which lies at `start` of the source."""

    start: int
    encoding: MachoEncoding
    cpu: int
    subtype: int
    filetype: int
    ncmds: int
    sizeofcmds: int
    flags: int

    @property
    def arch(self) -> str:
        """Apple's name of the architecture, "" if it is not known."""
        return arch_name(self.cpu, self.subtype)


class MachoSegment(NamedTuple):
    """One segment; `offset` counts from the start of the image, not of a fat file around it."""

    name: str
    vaddr: int
    size: int
    offset: int
    filesize: int
    protection: int


class MachoSection(NamedTuple):
    """One section; `name` is "SEGMENT,section", `offset` counts from the start of the image.

    `first` and `entry_size` are reserved1 and reserved2: the first entry in the indirect symbol
    table, and the size of a stub. `has_bytes` tells whether the file has its contents.
    """

    name: str
    vaddr: int
    size: int
    offset: int
    flags: int
    first: int
    entry_size: int
    has_bytes: bool

    @property
    def type(self) -> int:
        """The type of the section, an S_ constant."""
        return self.flags & SECTION_TYPE

    @property
    def short_name(self) -> str:
        """The section's name without its segment."""
        return self.name.partition(",")[2]


def read_header(source: ByteSource, start: int = 0) -> MachoHeader:
    """Read the mach_header at `start`.

    Raises FormatError if there is none.
    """
    form = _MAGICS.get(source.read(start, 4))
    if form is None:
        raise broken(source, "magic", start, "not a Mach-O image")
    coding = encoding(*form)
    data = take(source, start, coding.header.size, "mach_header")
    _, cpu, subtype, filetype, ncmds, sizeofcmds, flags = coding.header.unpack(data)
    return MachoHeader(start, coding, cpu, subtype, filetype, ncmds, sizeofcmds, flags)


class MachoImage:
    """One image in `source`, from `start` on, at most `size` bytes.

    `libraries` are the install names by ordinal (the first has 1). Offsets of the image's own
    tables count from `start`. Raises FormatError if the header or the load commands are broken.
    """

    __slots__ = (
        "_budget",
        "_reasons",
        "_spans",
        "base",
        "chained",
        "dyld_info",
        "dysymtab",
        "encoding",
        "encrypted",
        "exports",
        "header",
        "install_name",
        "libraries",
        "reexported",
        "sections",
        "segments",
        "size",
        "source",
        "start",
        "symtab",
        "uuid",
    )

    def __init__(self, source: ByteSource, start: int, size: int) -> None:
        self.source = source
        self.start = start
        self.size = size
        self.header = read_header(source, start)
        self.encoding = self.header.encoding
        self.segments: list[MachoSegment] = []
        self.sections: list[MachoSection] = []
        self.libraries: list[str] = []
        self.reexported: list[str] = []
        self._reasons: dict[str, None] = {}
        self._spans: Spans | None = None
        self.install_name = ""
        self.uuid = ""
        # (offset, size) of tables in the image; (0, 0) if there is none
        self.symtab = (0, 0, 0, 0)  # symbols: offset, number; strings: offset, size
        self.dysymtab: tuple[int, ...] = ()
        self.dyld_info: tuple[int, ...] = ()  # rebase, bind, weak, lazy, export: offset, size each
        self.chained = (0, 0)
        self.exports = (0, 0)
        self.encrypted = (0, 0)
        # In a hostile file, names may overlap: all of them together must not be longer than the
        # file.
        self._budget = 4 * size + (1 << 16)
        self._read_commands()
        self.base = self._find_base()  # the link-time address of the mach_header

    # ---- load commands ----

    def _read_commands(self) -> None:
        header = self.header
        at = header.encoding.header.size
        if header.sizeofcmds > self.size - at:
            raise broken(
                self.source,
                "sizeofcmds",
                self.start + 20,
                f"{header.sizeofcmds} bytes of load commands in an image of {self.size}",
            )
        data = take(self.source, self.start + at, header.sizeofcmds, "load commands")
        order = self.encoding.order
        position = 0
        for _ in range(min(header.ncmds, len(data) // 8)):
            if position + 8 > len(data):
                self.miss("load commands: fewer than the header says")
                return
            command, size = unpack_from(order + "II", data, position)
            if size < 8 or size > len(data) - position:
                self.miss(
                    f"load commands: one at offset {self.start + at + position:#x} "
                    f"has a size of {size}"
                )
                return
            self._read_command(command, data[position : position + size], at + position)
            position += size
        if header.ncmds > len(data) // 8:
            self.miss("load commands: fewer than the header says")

    def _read_command(self, command: int, data: bytes, at: int) -> None:
        order = self.encoding.order
        try:
            if command in (LC_SEGMENT, LC_SEGMENT_64):
                self._read_segment(command, data)
            elif command in DYLIB_COMMANDS:
                name = text(data, unpack_from(order + "I", data, 8)[0])
                self.libraries.append(name)
                if command == LC_REEXPORT_DYLIB:
                    self.reexported.append(name)
            elif command == LC_ID_DYLIB:
                self.install_name = text(data, unpack_from(order + "I", data, 8)[0])
            elif command == LC_SYMTAB:
                self.symtab = unpack_from(order + "4I", data, 8)
            elif command == LC_DYSYMTAB:
                self.dysymtab = unpack_from(order + "18I", data, 8)
            elif command in (LC_DYLD_INFO, LC_DYLD_INFO_ONLY):
                self.dyld_info = unpack_from(order + "10I", data, 8)
            elif command == LC_DYLD_CHAINED_FIXUPS:
                self.chained = unpack_from(order + "2I", data, 8)
            elif command == LC_DYLD_EXPORTS_TRIE:
                self.exports = unpack_from(order + "2I", data, 8)
            elif command in (LC_ENCRYPTION_INFO, LC_ENCRYPTION_INFO_64):
                offset, size, system = unpack_from(order + "3I", data, 8)
                self.encrypted = (offset, size) if system else (0, 0)
            elif command == LC_UUID and len(data) >= 24:
                self.uuid = data[8:24].hex()
        except struct.error:
            where = self.start + at
            self.miss(f"load command {command:#x} at offset {where:#x}: cut off")

    def _read_segment(self, command: int, data: bytes) -> None:
        bits = 64 if command == LC_SEGMENT_64 else 32
        coding = encoding(bits, self.encoding.order)
        name, vaddr, size, offset, filesize, _, protection, count, _ = coding.segment.unpack_from(
            data
        )
        self.segments.append(MachoSegment(text(name), vaddr, size, offset, filesize, protection))
        step = coding.section.size
        room = (len(data) - coding.segment.size) // step
        if count > room:
            self.miss(f"segment {text(name)}: {count} sections in room for {room}")
        for row in coding.section.iter_unpack(
            data[coding.segment.size : coding.segment.size + min(count, room) * step]
        ):
            section, segment, vaddr, size, offset, _, _, _, flags, first, entry = row
            # In files with only debugging symbols, sections have no bytes in the file.
            has_bytes = offset != 0 and flags & SECTION_TYPE not in (
                S_ZEROFILL,
                S_GB_ZEROFILL,
                S_THREAD_LOCAL_ZEROFILL,
            )
            full = f"{text(segment)},{text(section)}"
            self.sections.append(
                MachoSection(full, vaddr, size, offset, flags, first, entry, has_bytes)
            )

    # ---- addresses and bytes ----

    def _find_base(self) -> int:
        for segment in self.segments:
            if segment.offset == 0 and segment.filesize:
                return segment.vaddr
        return self.segments[0].vaddr if self.segments else 0

    def _in_file(self, vaddr: int) -> tuple[int, int]:
        """Return (offset in the image, bytes up to the segment's end) of an address, or (0, 0)."""
        if self._spans is None:
            self._spans = Spans(
                (segment.vaddr, segment.vaddr + min(segment.filesize, self.size - segment.offset))
                for segment in self.segments
            )
        number = self._spans.at(vaddr)
        if number is None:
            return 0, 0
        segment = self.segments[number]
        into = vaddr - segment.vaddr
        offset = segment.offset + into
        return offset, min(segment.filesize - into, self.size - offset)

    def offset_of(self, vaddr: int) -> int | None:
        """Return the offset in the source of the byte at `vaddr`, None if the file lacks it."""
        offset, room = self._in_file(vaddr)
        return self.start + offset if room else None

    def read(self, vaddr: int, size: int) -> bytes:
        """Return up to `size` bytes at `vaddr`, fewer at the end of its segment."""
        offset, room = self._in_file(vaddr)
        return self.source.read(self.start + offset, min(size, room)) if room else b""

    def table(self, offset: int, size: int, field: str) -> bytes:
        """Return the `size` bytes at `offset` of the image.

        Raises FormatError, with `field` in its message, if the image ends before.
        """
        if offset < 0 or size < 0 or offset + size > self.size:
            raise broken(
                self.source,
                field,
                self.start + offset,
                f"{size} bytes expected, the image ends at {self.start + self.size:#x}",
            )
        return take(self.source, self.start + offset, size, field)

    def contents(self, section: MachoSection) -> bytes:
        """Return a section's bytes in the file; missing bytes are reported in `partial`.

        The section's own offset counts, because object files have no suitable segments.
        """
        if not section.has_bytes or not section.size:
            return b""
        size = max(0, min(section.size, self.size - section.offset))
        data = self.source.read(self.start + section.offset, size)
        if len(data) < section.size:
            self.miss(f"section {section.name}: {section.size} bytes, the file has {len(data)}")
        return data

    def afford(self, size: int) -> bool:
        """Return whether a name of `size` bytes may be kept, and report if it may not."""
        self._budget -= size
        if self._budget < 0:
            self.miss("names: together they are longer than the file")
        return self._budget >= 0

    def bounded(self, sections: list[MachoSection]) -> list[MachoSection]:
        """Return the first `sections` that fit into the file without overlaps."""
        left = self.size
        for index, section in enumerate(sections):
            left -= min(section.size, max(0, self.size - section.offset))
            if left < 0:
                self.miss("sections: together they are longer than the file")
                return sections[:index]
        return sections

    @property
    def partial(self) -> list[str]:
        """Reasons why parts could not be read so far, at most a hundred."""
        return list(self._reasons)

    def miss(self, reason: str) -> None:
        """Add a reason why something could not be read."""
        if len(self._reasons) < _MOST_REASONS:
            self._reasons[reason] = None
        elif reason not in self._reasons:
            self._reasons["and more, which are left out"] = None

    def missed(self, error: FormatError) -> None:
        """Add `error` as a reason why something could not be read."""
        self.miss(error.message.removeprefix(self.source.name + ": "))


# One record of the loader's data: a pointer, its symbol, and the symbol's library.

# Kinds of records, for `FileSlot.kind`.
BIND = "bind"
WEAK_BIND = "weak-bind"
LAZY_BIND = "lazy-bind"
CHAINED_BIND = "chained-bind"
THREADED_BIND = "threaded-bind"
EXTERNAL_RELOCATION = "external-relocation"
# Kinds of slots that are filled without a record.
INDIRECT_SYMBOL = "indirect-symbol"  # by the indirect symbol table (before LC_DYLD_INFO)
REBASE = "rebase"  # an address in this image, which only moves with it

KEYS = ("IA", "IB", "DA", "DB")


class Bind(NamedTuple):
    """One pointer that the loader binds.

    `ordinal` is the library's, as in `ordinals`, None if the record has none. `argument` is the
    offset of the record in the lazy bind opcodes, which a stub helper passes on.
    """

    vaddr: int
    name: str
    ordinal: int | None
    kind: str
    addend: int = 0
    weak_import: bool = False
    signed: Signed | None = None
    argument: int | None = None


class Ranges:
    """A set of wanted addresses: those in any of the (start, end) pairs; None means all."""

    __slots__ = ("_edges", "pairs")

    def __init__(self, pairs: list[tuple[int, int]] | None) -> None:
        self.pairs: list[tuple[int, int]] | None = None
        self._edges: list[int] = []
        if pairs is None:
            return
        self.pairs = []
        for start, end in sorted(pairs):
            if start >= end:
                continue
            if self.pairs and start <= self.pairs[-1][1]:
                self.pairs[-1] = (self.pairs[-1][0], max(end, self.pairs[-1][1]))
            else:
                self.pairs.append((start, end))
        self._edges = [edge for pair in self.pairs for edge in pair]

    def has(self, vaddr: int) -> bool:
        """Return whether `vaddr` is wanted."""
        return self.pairs is None or bool(bisect_right(self._edges, vaddr) & 1)

    def steps(self, vaddr: int, count: int, step: int) -> list[range]:
        """Return which of `count` addresses from `vaddr` on, `step` apart, are wanted.

        The result is ranges of indices.
        """
        if count <= 0 or step <= 0:
            return []
        every = range(vaddr, vaddr + count * step, step)
        if self.pairs is None:
            return [every]
        ranges = []
        for start, end in self.pairs:
            first = max(0, -((vaddr - start) // step))
            last = min(count, -((vaddr - end) // step))
            if first < last:
                ranges.append(every[first:last])
        return ranges
