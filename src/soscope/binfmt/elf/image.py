# SPDX-License-Identifier: Apache-2.0
"""An ELF image in a file or in memory, which leads to the other parts of this package."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import (
    Dynamic,
    ElfReader,
    Encoding,
    Segment,
    encoding,
    read_header,
    read_segments,
)
from soscope.binfmt.elf.slots import plt_symbols
from soscope.binfmt.elf.symboltable import ElfSymbol, SymbolTable
from soscope.binfmt.source import ByteSource, FileSource, broken
from soscope.errors import FormatError

# Notes: only the GNU build-id is read.

_MAX_NOTES = 1 << 20


def read_build_id(image: ElfReader, segment: Segment) -> bytes:
    """Return the build-id in a PT_NOTE segment, empty if there is none.

    Raises FormatError if the notes are longer than their segment.
    """
    size = min(segment.filesz, _MAX_NOTES)
    data = image.read(segment.vaddr, size, "PT_NOTE")
    # Notes are 4-aligned, except .note.gnu.property of ELF64, whose segment has an alignment of 8.
    identity = find_build_id(data, image.encoding, 8 if segment.align == 8 else 4)
    if identity is None:
        raise broken(image.source, "PT_NOTE", image.locate(segment.vaddr), "cut note")
    return identity


def find_build_id(data: bytes, encoding: Encoding, align: int) -> bytes | None:
    """Return the build-id among notes; empty if there is none, None if a note is cut."""
    unpack = encoding.u32.unpack_from
    at = 0
    while at + 12 <= len(data):
        (name_size,), (desc_size,), (kind,) = (
            unpack(data, at),
            unpack(data, at + 4),
            unpack(data, at + 8),
        )
        desc = at + 12 + name_size
        desc += -desc % align
        if desc + desc_size > len(data):
            return None
        if kind == c.NT_GNU_BUILD_ID and data[at + 12 : at + 12 + name_size] == b"GNU\0":
            return data[desc : desc + desc_size]
        at = desc + desc_size
        at += -at % align
    return b""


CHECKSUM_SIZE = 8  # bytes

_MAX_NEEDED = 1 << 20  # bytes of all names
_MAX_SUMMED = 1 << 20  # bytes of a table; the agent has the same limit


class ElfImage(ElfReader):
    """One ELF image: constructors for each source, and what the image tells about itself."""

    __slots__ = ("_symbols",)

    _symbols: SymbolTable

    # ---- constructors ----

    @classmethod
    def from_source(cls, source: ByteSource) -> ElfImage:
        """Open an image in the layout of a file.

        Raises FormatError if it is not an ELF file.
        """
        header = read_header(source)
        return cls(
            source,
            encoding=header.encoding,
            header=header,
            segments=read_segments(source, header),
            load_bias=0,
            is_mapped=False,
        )

    @classmethod
    def from_descriptor(cls, descriptor: int, name: str) -> ElfImage:
        """Open the image in an open file; the caller still owns the descriptor, and keeps it open.

        The image is read through it on request.
        """
        return cls.from_source(FileSource(descriptor, os.fspath(name)))

    @classmethod
    def from_memory(cls, source: ByteSource, addr: int) -> ElfImage:
        """Open an image that is mapped with its ELF header at run-time address `addr`.

        Raises FormatError if there is no ELF header, or if no PT_LOAD contains it.
        """
        header = read_header(source, addr)
        segments = read_segments(source, header, addr)
        for segment in segments:
            if segment.type == c.PT_LOAD and segment.offset == 0:
                return cls(
                    source,
                    encoding=header.encoding,
                    header=header,
                    segments=segments,
                    load_bias=addr - segment.vaddr,
                    is_mapped=True,
                )
        raise broken(source, "PT_LOAD", addr, "the ELF header is not mapped")

    @classmethod
    def from_dynamic(
        cls, source: ByteSource, load_bias: int, addr: int, *, bits: int = 64, order: str = "<"
    ) -> ElfImage:
        """Open a mapped image by the run-time address of its dynamic section (`l_ld`)."""
        coding = encoding(bits, order)
        return cls(
            source,
            encoding=coding,
            header=None,
            segments=[],
            load_bias=load_bias,
            is_mapped=True,
            dynamic=Dynamic.read(source, coding, addr),
        )

    @property
    def symbols(self) -> SymbolTable:
        """The dynamic symbols."""
        try:
            return self._symbols
        except AttributeError:
            self._symbols = SymbolTable(self)
            return self._symbols

    @property
    def soname(self) -> str | None:
        """The DT_SONAME, None if there is none."""
        offset = self.dynamic.get(c.DT_SONAME)
        return None if offset is None else self.string(offset, "DT_SONAME")

    @property
    def needed(self) -> list[str]:
        """The DT_NEEDED names, in order.

        Raises FormatError if a name is damaged, or if the names together are implausibly long.
        """
        names, length = [], 0
        for offset in self.dynamic.all(c.DT_NEEDED):
            names.append(self.string(offset, "DT_NEEDED"))
            length += len(names[-1])
            if length > _MAX_NEEDED:
                raise broken(self.source, "DT_NEEDED", offset, f"names of over {_MAX_NEEDED} bytes")
        return names

    @property
    def interpreter(self) -> str | None:
        """The path of the loader that this program asks for, None for a static program."""
        for segment in self.segments:
            if segment.type == c.PT_INTERP:
                if segment.filesz > 4096:
                    raise broken(self.source, "PT_INTERP", segment.offset, "longer than a path")
                path = self.read(segment.vaddr, segment.filesz, "PT_INTERP")
                return os.fsdecode(path.split(b"\0", 1)[0])
        return None

    @property
    def build_id(self) -> bytes:
        """The GNU build-id, empty if there is none."""
        for segment in self.segments:
            if segment.type == c.PT_NOTE:
                build_id = read_build_id(self, segment)
                if build_id:
                    return build_id
        return b""

    @property
    def checksum(self) -> bytes:
        """A checksum of CHECKSUM_SIZE bytes that identifies a file without a build-id, or b"".

        It is the CRC-32 of the program headers, followed by the CRC-32 of the first MiB of
        .eh_frame_hdr (PT_GNU_EH_FRAME), which has the start addresses of all functions. The
        second is 0 if that cannot be read. The agent computes the same checksum for an image in
        memory.
        """
        import zlib

        if self.header is None or self.is_mapped:
            return b""
        size = self.header.phnum * self.header.phentsize
        sums = [zlib.crc32(self.source.read(self.header.phoff, size)), 0]
        for part in self.segments:
            if part.type == c.PT_GNU_EH_FRAME:
                if any(_is_in(part, segment) for segment in self.segments):
                    size = min(part.filesz, _MAX_SUMMED)
                    try:
                        sums[1] = zlib.crc32(self.read(part.vaddr, size, "PT_GNU_EH_FRAME"))
                    except FormatError:
                        pass  # the file was truncated meanwhile
                break
        return b"".join(each.to_bytes(4, "little") for each in sums)

    @property
    def identity(self) -> bytes:
        """The build-id, or the checksum if the file has none."""
        return self.build_id or self.checksum

    def symbol(self, name: str) -> ElfSymbol | None:
        """Look up the definition of `name` by DT_GNU_HASH or DT_HASH, as a loader does.

        If there are several versions, return the default one.
        """
        return self.symbols.lookup(name)

    def called_functions(self) -> list[ElfSymbol]:
        """List the functions that this image calls through slots: imports, and some of its own."""
        imports = self.undefined_functions()
        own = plt_symbols(self) - {symbol.index for symbol in imports}
        array = self.symbols.array
        symbols = [array.symbol(index) for index in sorted(own) if index < len(array)]
        return imports + [symbol for symbol in symbols if symbol.name and symbol.is_defined]

    def undefined_functions(self) -> list[ElfSymbol]:
        """List the functions that this image imports, in order of the symbol table.

        Some linkers do not mark undefined symbols as functions. Such functions are recognised by
        their relocation in DT_JMPREL, which data never has.
        """
        called = plt_symbols(self)
        return [
            symbol
            for symbol in self.symbols.undefined()
            if symbol.name
            and (symbol.type in (c.STT_FUNC, c.STT_GNU_IFUNC) or symbol.index in called)
        ]


def _is_in(part: Segment, segment: Segment) -> bool:
    """Return whether a readable segment contains all file bytes of a part."""
    before = part.vaddr - segment.vaddr
    return (
        segment.type == c.PT_LOAD
        and bool(segment.flags & c.PF_R)
        and 0 <= before < segment.filesz
        and part.filesz <= segment.filesz - before
    )
