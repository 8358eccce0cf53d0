# SPDX-License-Identifier: Apache-2.0
"""The ELF header and the program headers."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import Encoding, encoding
from soscope.binfmt.kinds import kind_of
from soscope.binfmt.source import ByteSource, broken, require, take

_LARGEST = 64  # bytes of the largest ELF header
_MAX_SEGMENTS = 4096  # the kernel accepts less than 64 KiB of program headers


TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.arch import Arch


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
