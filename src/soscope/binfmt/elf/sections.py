# SPDX-License-Identifier: Apache-2.0
"""Section headers of a file, which lead to names that a loader does not need.

No process depends on section headers, so strippers, packers and protectors remove them or fill
them with garbage. A table that cannot be valid is treated as missing. A valid section that lies
outside of its file raises FormatError when it is read.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.header import Header
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.stretches import StretchOwners
from soscope.binfmt.source import ByteSource, broken, take

_MAX_SECTIONS = 1 << 17
_MAX_NAMES = 1 << 26
_MAX_NAME = 1 << 16
_ZLIB = 1  # ELFCOMPRESS_ZLIB


class Section:
    """One section header; `vaddr` is a link-time address, `offset` an offset in the file."""

    __slots__ = (
        "_name",
        "_names",
        "entsize",
        "flags",
        "info",
        "link",
        "offset",
        "size",
        "type",
        "vaddr",
    )

    def __init__(self, names: bytes, fields: tuple[int, ...]) -> None:
        self._names = names
        self._name = fields[0]
        self.type, self.flags, self.vaddr, self.offset, self.size = fields[1:6]
        self.link, self.info = fields[6:8]
        self.entsize = fields[9]

    @property
    def name(self) -> str:
        """Its name, "" if the table of names has none for it."""
        return _text(self._names, self._name)


class Sections:
    """The sections of a file, by index; if there are none, `why` is the reason."""

    __slots__ = ("_loaded", "_owners", "_source", "all", "why")

    def __init__(self, source: ByteSource, sections: list[Section], why: str = "") -> None:
        self._source = source
        self.all = sections
        self.why = why
        self._loaded: list[Section] = []
        self._owners: StretchOwners | None = None

    @classmethod
    def read(cls, image: ElfReader) -> Sections:
        """Read the section headers of an image in the layout of a file.

        An image in memory has none, because they are not mapped.
        """
        header, source = image.header, image.source
        if header is None or image.is_mapped:
            return cls(source, [], "section headers are not mapped")
        if not header.shoff:
            return cls(source, [], "no section headers")
        size = header.encoding.section.size
        if header.shentsize != size:
            return cls(source, [], f"section headers of {header.shentsize} bytes")
        first = source.read(header.shoff, size)
        if len(first) < size:
            return cls(source, [], "section headers outside of the file")
        return cls._read_table(source, header, header.encoding.section.unpack(first))

    @classmethod
    def _read_table(cls, source: ByteSource, header: Header, null: tuple[int, ...]) -> Sections:
        """Read all headers; `null` is header 0, which holds numbers too large for other fields."""
        layout = header.encoding.section
        count = header.shnum or null[5]
        names = null[6] if header.shstrndx == c.SHN_XINDEX else header.shstrndx
        if null[1] != c.SHT_NULL or not 0 < count <= _MAX_SECTIONS:
            return cls(source, [], "no section headers where the ELF header says")
        table = source.read(header.shoff, count * layout.size)
        if len(table) < count * layout.size:
            return cls(source, [], "section headers outside of the file")
        rows = list(layout.iter_unpack(table))
        strings = b""
        if names:
            if names >= count or rows[names][1] != c.SHT_STRTAB or rows[names][5] > _MAX_NAMES:
                return cls(source, [], "section headers without names")
            strings = source.read(rows[names][4], rows[names][5])
            if len(strings) < rows[names][5]:
                return cls(source, [], "names of sections outside of the file")
        return cls(source, [Section(strings, row) for row in rows])

    def named(self, name: str) -> Section | None:
        """Return the first section called `name` that has bytes in the file."""
        for section in self.all:
            if section.name == name and section.type not in (c.SHT_NOBITS, c.SHT_NULL):
                return section
        return None

    def of_type(self, kind: int) -> Section | None:
        """Return the first section of type `kind`."""
        return next((section for section in self.all if section.type == kind), None)

    def containing(self, vaddr: int) -> Section | None:
        """Return the first loaded section that contains `vaddr`, None if there is none."""
        if self._owners is None:
            self._loaded = [section for section in self.all if section.flags & c.SHF_ALLOC]
            self._owners = StretchOwners(
                (section.vaddr, section.vaddr + section.size) for section in self._loaded
            )
        index = self._owners.of(vaddr)
        return self._loaded[index] if index >= 0 else None

    def is_code(self, vaddr: int) -> bool:
        """Return whether the loaded section that contains `vaddr` holds instructions."""
        section = self.containing(vaddr)
        return section is not None and bool(section.flags & c.SHF_EXECINSTR)

    def data(self, section: Section, limit: int) -> bytes:
        """Return the bytes of a section; empty for SHT_NOBITS.

        Raises FormatError if there are more than `limit`, or if the file does not have all of
        them.
        """
        if section.type == c.SHT_NOBITS:
            return b""
        if section.size > limit:
            raise broken(
                self._source, section.name, section.offset, f"{section.size} bytes, over {limit}"
            )
        return take(self._source, section.offset, section.size, section.name)

    def unpacked(self, section: Section, coding: Encoding, limit: int) -> bytes | None:
        """Return the unpacked bytes of a section, None if this Python cannot unpack them.

        A packed section is an Elf_Chdr, then a zlib stream: gABI, "Section Compression". Raises
        FormatError as `data` does.
        """
        data = self.data(section, limit)
        if not section.flags & c.SHF_COMPRESSED:
            return data
        if data[:4] != coding.u32.pack(_ZLIB):
            return None
        import zlib

        unpacker = zlib.decompressobj()
        try:
            unpacked = unpacker.decompress(data[24 if coding.bits == 64 else 12 :], limit)
        except zlib.error:
            return None
        return unpacked if unpacker.eof else None


def _text(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at, at + _MAX_NAME)
    return strings[at:end].decode("utf-8", "surrogateescape") if 0 <= at < end else ""
