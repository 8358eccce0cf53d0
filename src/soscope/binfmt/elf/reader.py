# SPDX-License-Identifier: Apache-2.0
"""The base of all tables of an ELF image: headers, addresses, dynamic tags, strings."""

from __future__ import annotations

import os
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.source import ByteSource, broken, kind_of, require, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from soscope.model.arch import Arch


# How one ELF file stores numbers: 32 or 64 bits, little or big end first.


class Encoding:
    """The struct formats of one ELF class and byte order.

    `bits` is 32 or 64, `order` is "<" or ">", and `byteorder` is the name of that order. `word` is
    one address-sized integer.
    """

    __slots__ = (
        "bits",
        "byteorder",
        "dynamic",
        "half",
        "header",
        "order",
        "rel",
        "rela",
        "section",
        "segment",
        "symbol",
        "u32",
        "word",
    )

    def __init__(self, bits: int, order: str) -> None:
        self.bits = bits
        self.order = order
        self.byteorder: Literal["little", "big"] = "little" if order == "<" else "big"
        self.half = Struct(order + "H")
        self.u32 = Struct(order + "I")
        if bits == 64:
            self.word = Struct(order + "Q")
            self.header = Struct(order + "16xHHIQQQIHHHHHH")
            self.segment = Struct(order + "IIQQQQQQ")
            self.section = Struct(order + "IIQQQQIIQQ")
            self.dynamic = Struct(order + "qQ")
            self.symbol = Struct(order + "IBBHQQ")
            self.rel = Struct(order + "QQ")
            self.rela = Struct(order + "QQq")
        else:
            self.word = Struct(order + "I")
            self.header = Struct(order + "16xHHIIIIIHHHHHH")
            self.segment = Struct(order + "IIIIIIII")
            self.section = Struct(order + "IIIIIIIIII")
            self.dynamic = Struct(order + "iI")
            self.symbol = Struct(order + "IIIBBH")
            self.rel = Struct(order + "II")
            self.rela = Struct(order + "IIi")


_KNOWN: dict[tuple[int, str], Encoding] = {}  # functools.cache is slow to import


def encoding(bits: int, order: str) -> Encoding:
    """Return the encoding for `bits` (32, 64) and `order` ("<", ">")."""
    known = _KNOWN.get((bits, order))
    if known is None:
        known = _KNOWN[bits, order] = Encoding(bits, order)
    return known


# The dynamic section: pairs of tag and value, up to DT_NULL.

_PIECE = 1024  # bytes of one read: most sections are shorter
_MAX_ENTRIES = 65536


class Dynamic:
    """The entries of a dynamic section, in order: (tag, value)."""

    __slots__ = ("_first", "entries")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self._first = dict(reversed(entries))

    @classmethod
    def read(
        cls, source: ByteSource, coding: Encoding, at: int, size: int | None = None
    ) -> Dynamic:
        """Read the section at offset `at`, up to DT_NULL or the end of its `size` bytes.

        Raises FormatError if it has no end.
        """
        entries: list[tuple[int, int]] = []
        step = coding.dynamic.size
        while len(entries) < _MAX_ENTRIES:
            where = at + len(entries) * step
            left = _PIECE if size is None else min(_PIECE, size - len(entries) * step)
            if left < step:
                return cls(entries)
            piece = source.read(where, left)
            require(piece, step, source, where, "dynamic section")
            pairs = list(coding.dynamic.iter_unpack(piece[: len(piece) // step * step]))
            tags = [tag for tag, _ in pairs]
            if c.DT_NULL in tags:
                return cls(entries + pairs[: tags.index(c.DT_NULL)])
            entries += pairs
        raise broken(source, "dynamic section", at, "no DT_NULL")

    def get(self, tag: int) -> int | None:
        """Return the value of the first entry with `tag`, None if there is none."""
        return self._first.get(tag)

    def all(self, tag: int) -> list[int]:
        """Return the values of all entries with `tag`."""
        return [value for entry, value in self.entries if entry == tag]


# The ELF header and the program headers.

_LARGEST = 64  # bytes of the largest ELF header
_MAX_SEGMENTS = 4096  # the kernel accepts less than 64 KiB of program headers


class Header:
    """The fields of the ELF header; `phoff` and `shoff` are offsets from the header."""

    __slots__ = (
        "_arch",
        "encoding",
        "entry",
        "flags",
        "machine",
        "phentsize",
        "phnum",
        "phoff",
        "shentsize",
        "shnum",
        "shoff",
        "shstrndx",
        "type",
    )

    def __init__(self, encoding: Encoding, fields: tuple[int, ...]) -> None:
        self.encoding = encoding
        self.type, self.machine = fields[0], fields[1]
        self.entry, self.phoff, self.shoff, self.flags = fields[3:7]
        self.phentsize, self.phnum, self.shentsize, self.shnum, self.shstrndx = fields[8:13]
        self._arch: tuple[Arch | None, ...] = ()

    @property
    def arch(self) -> Arch | None:
        """The row of model/arch.py for its machine, None for an unknown processor."""
        if not self._arch:
            # imported late, because many callers, such as the start of an attachment, never need
            # it
            from soscope.model.arch import arch_of

            coding = self.encoding
            self._arch = (arch_of(self.machine, coding.bits, coding.order, self.flags),)
        return self._arch[0]

    @property
    def arch_name(self) -> str:
        """The name of its machine, "e_machine N" for an unknown processor."""
        return f"e_machine {self.machine}" if self.arch is None else self.arch.name


class Segment:
    """One program header; `vaddr` is a link-time address, `offset` an offset in the file."""

    __slots__ = ("align", "filesz", "flags", "memsz", "offset", "type", "vaddr")

    def __init__(
        self, kind: int, flags: int, offset: int, vaddr: int, filesz: int, memsz: int, align: int
    ) -> None:
        self.type = kind
        self.flags = flags
        self.offset = offset
        self.vaddr = vaddr
        self.filesz = filesz
        self.memsz = memsz
        self.align = align


def read_header(source: ByteSource, at: int = 0) -> Header:
    """Read the ELF header at offset `at`.

    Raises FormatError if there is none, or if its class or byte order is unknown.
    """
    data = source.read(at, _LARGEST)
    require(data, 16, source, at, "e_ident")
    ident = data[:16]
    if ident[:4] != b"\x7fELF":
        what, hint = kind_of(ident, source.name)
        error = broken(
            source, "e_ident", at, f"{what}, not an ELF file" if hint else "not an ELF file"
        )
        error.hint = hint
        raise error
    bits = {1: 32, 2: 64}.get(ident[4])
    if bits is None:
        raise broken(source, "EI_CLASS", at + 4, f"unknown class {ident[4]}")
    order = {1: "<", 2: ">"}.get(ident[5])
    if order is None:
        raise broken(source, "EI_DATA", at + 5, f"unknown byte order {ident[5]}")
    coding = encoding(bits, order)
    require(data, coding.header.size, source, at, "ELF header")
    fields = coding.header.unpack_from(data)
    header = Header(coding, fields)
    if header.phnum == c.PN_XNUM:
        # sh_info of section header 0, at 44 (ELF64) or 28 (ELF32). gABI, "Program Header".
        where = at + header.shoff + (44 if bits == 64 else 28)
        (header.phnum,) = coding.u32.unpack(take(source, where, 4, "sh_info"))
    return header


def read_segments(source: ByteSource, header: Header, at: int = 0) -> list[Segment]:
    """Read the program headers of the file whose ELF header is at offset `at`.

    Raises FormatError if they do not fit into the file.
    """
    if not header.phnum:
        return []
    coding = header.encoding
    where = at + header.phoff
    if header.phentsize != coding.segment.size:
        raise broken(source, "e_phentsize", where, f"unknown size {header.phentsize}")
    if header.phnum > _MAX_SEGMENTS:
        raise broken(source, "e_phnum", where, f"{header.phnum} program headers")
    table = take(source, where, header.phnum * coding.segment.size, "program headers")
    return unpack_segments(coding, table)


def unpack_segments(coding: Encoding, table: bytes) -> list[Segment]:
    """Unpack a table of program headers; its length is a multiple of their size."""
    segments = []
    for fields in coding.segment.iter_unpack(table):
        if coding.bits == 64:
            kind, flags, offset, vaddr, _, filesz, memsz, align = fields
        else:
            kind, offset, vaddr, _, filesz, memsz, flags, align = fields
        segments.append(Segment(kind, flags, offset, vaddr, filesz, memsz, align))
    return segments


# Names of unusual length in a string table.
#
# Names may share their ends, so one long string can be the name of as many symbols as it has bytes.
# No linker writes names that are together more than a few times as long as their table. Beyond that
# limit names are left out, so that memory stays in proportion to the file.

SHORT = 1024  # bytes; shorter names are read without a check
LONGEST = 1 << 20
_TIMES = 4
_ROOM = 1 << 20


class LongNames:
    """The names in `strings` that are longer than SHORT, up to a limit for all together.

    `reason` is why the last name was left out, "" if none was. `is_spent` is true if all further
    long names are left out, too.
    """

    __slots__ = ("_left", "_strings", "is_spent", "reason")

    def __init__(self, strings: bytes) -> None:
        self._strings = strings
        self._left = _TIMES * len(strings) + _ROOM
        self.reason = ""
        self.is_spent = False

    def read(self, at: int) -> bytes | None:
        """Return the name at `at`; None, with a `reason`, if there is none or it is too long."""
        if self._left <= 0:
            self.is_spent = True
            self.reason = f"names in DT_STRTAB are more than {_TIMES} times as long as all of it"
            return None
        end = self._strings.find(b"\0", at, at + LONGEST + 1)
        looked_at = (end if end >= 0 else min(at + LONGEST, len(self._strings))) - at
        self._left -= max(looked_at, 0)
        if end >= 0:
            return self._strings[at:end]
        if at + LONGEST < len(self._strings):
            self.reason = f"the name at {at:#x} of DT_STRTAB is longer than {LONGEST} bytes"
        else:
            self.reason = f"{at:#x} is outside of DT_STRTAB"
        return None


# The base of all tables of an ELF image: addresses, dynamic tags, strings.
#
# In a file, the PT_LOAD that contains a link-time address gives its offset. In memory, the load
# bias is added to it. Some loaders relocate the pointers of the dynamic section in place, others do
# not: `locate_pointer` handles both.

_STRING_PIECE = 64
_MAX_STRING = 1 << 16  # bytes of a file or version name; PATH_MAX is 4096
_MAX_STRINGS = 1 << 30  # bytes of a string table


class ElfReader:
    """One ELF image in a byte source.

    If the image was opened by its dynamic section alone, `header` is None and `segments` is
    empty. `load_bias` is 0 for files.
    """

    __slots__ = (
        "_dynamic",
        "encoding",
        "header",
        "is_mapped",
        "load_bias",
        "segments",
        "source",
    )

    def __init__(
        self,
        source: ByteSource,
        *,
        encoding: Encoding,
        header: Header | None,
        segments: list[Segment],
        load_bias: int,
        is_mapped: bool,
        dynamic: Dynamic | None = None,
    ) -> None:
        self.source = source
        self.encoding = encoding
        self.header = header
        self.segments = segments
        self.load_bias = load_bias
        self.is_mapped = is_mapped
        self._dynamic = dynamic

    def locate(self, vaddr: int) -> int:
        """Return the position in the source of link-time address `vaddr`.

        Raises FormatError if no PT_LOAD of the file contains it.
        """
        if self.is_mapped:
            return vaddr + self.load_bias
        for segment in self.segments:
            if segment.type == c.PT_LOAD and 0 <= vaddr - segment.vaddr < segment.filesz:
                return vaddr - segment.vaddr + segment.offset
        raise broken(self.source, "vaddr", vaddr, "no PT_LOAD holds this address")

    def locate_pointer(self, tag: int) -> int | None:
        """Return the position of the table of dynamic tag `tag`, None if there is no such tag.

        glibc adds the load bias in the mapped dynamic section on most machines, but not for the
        vDSO; musl never does. A load bias is larger than any link-time address, so a larger value
        includes it.
        """
        value = self.dynamic.get(tag)
        if value is None:
            return None
        if self.is_mapped and value >= self.load_bias:
            return value
        return self.locate(value)

    def read(self, vaddr: int, size: int, field: str) -> bytes:
        """Read `size` bytes at link-time address `vaddr`.

        Raises FormatError, with `field` in its message, if the source has fewer bytes.
        """
        return take(self.source, self.locate(vaddr), size, field)

    @property
    def dynamic(self) -> Dynamic:
        """The dynamic section; empty for a static program."""
        if self._dynamic is None:
            self._dynamic = Dynamic([])
            for segment in self.segments:
                if segment.type == c.PT_DYNAMIC:
                    self._dynamic = Dynamic.read(
                        self.source, self.encoding, self.locate(segment.vaddr), segment.memsz
                    )
        return self._dynamic

    def lose_dynamic(self) -> None:
        """Treat the image as one without a dynamic section, because the section is damaged."""
        self._dynamic = Dynamic([])

    def dynamic_strings(self) -> bytes:
        """Return all of DT_STRTAB; less if it is cut, nothing if there is none."""
        table = self.locate_pointer(c.DT_STRTAB)
        size = min(self.dynamic.get(c.DT_STRSZ) or 0, _MAX_STRINGS)
        return b"" if table is None else self.source.read(table, size)

    def string(self, offset: int, field: str) -> str:
        """Return the string at `offset` of DT_STRTAB.

        Raises FormatError, with `field` in its message, if the string does not end within the
        table or is longer than 65,536 bytes.
        """
        table = self.locate_pointer(c.DT_STRTAB)
        if table is None:
            raise broken(self.source, field, offset, "no DT_STRTAB")
        size = self.dynamic.get(c.DT_STRSZ)
        text, piece_size = b"", _STRING_PIECE
        while size is None or offset + len(text) < size:
            piece = self.source.read(table + offset + len(text), piece_size)
            end = piece.find(b"\0")
            if end >= 0:
                return os.fsdecode(text + piece[:end])
            if not piece:
                break
            text += piece
            if len(text) >= _MAX_STRING:
                raise broken(self.source, field, table + offset, f"over {_MAX_STRING} bytes long")
            piece_size = len(text)
        raise broken(self.source, field, table + offset, "outside of DT_STRTAB")
