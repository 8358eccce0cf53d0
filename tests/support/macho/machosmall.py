# SPDX-License-Identifier: Apache-2.0
"""The smallest Mach-O images that say something: one segment, a few sections, a few tables.

All addresses are those of the file plus BASE, so a test can write down both at once.
"""

from __future__ import annotations

from struct import pack

from soscope.binfmt.macho import fat
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource

BASE = 0x10000
CODE = BASE + 0x800  # where the first section of every test lies
DATA = BASE + 0x1000
LINKEDIT = 0x1800  # where tables begin, in the file
LIBRARY = "/usr/lib/libSystem.B.dylib"

Section = tuple[str, str, int, bytes, int, int, int]  # segment, name, vaddr, bytes, flags, 2 words


class Small:
    """One image in the making. `tables` are (place in the file, bytes)."""

    def __init__(self, cpu: int, *, bits: int = 64, order: str = "<", subtype: int = 0) -> None:
        self.cpu = cpu
        self.bits = bits
        self.order = order
        self.subtype = subtype
        self.flags = 0x80  # MH_TWOLEVEL
        self.filetype = 6
        self.sections: list[Section] = []
        self.commands: list[bytes] = []
        self.tables: list[tuple[int, bytes]] = []
        self.names = b"\0"
        self.symbols = b""
        self.indirect: list[int] = []
        self.size = 0x2000
        self.dylib(LIBRARY)

    def section(
        self, name: str, vaddr: int, data: bytes, flags: int = 0, first: int = 0, size: int = 0
    ) -> None:
        segment, _, short = name.partition(",")
        self.sections.append((segment, short, vaddr, data, flags, first, size))

    def command(self, number: int, body: bytes) -> None:
        body += bytes(-len(body) % 8)
        self.commands.append(pack(self.order + "II", number, 8 + len(body)) + body)

    def dylib(self, name: str, number: int = 0xC) -> None:
        self.command(number, pack(self.order + "4I", 24, 0, 0, 0) + name.encode() + b"\0")

    def symbol(
        self, name: str, *, kind: int = 1, section: int = 0, desc: int = 0x100, value: int = 0
    ) -> int:
        """Add an nlist; returns its index. The default is an undefined symbol of LIBRARY."""
        at = len(self.names)
        self.names += name.encode() + b"\0"
        word = "Q" if self.bits == 64 else "I"
        self.symbols += pack(self.order + "IBBH" + word, at, kind, section, desc, value)
        return len(self.symbols) // (16 if self.bits == 64 else 12) - 1

    def table(self, at: int, data: bytes) -> tuple[int, int]:
        self.tables.append((at, data))
        return at, len(data)

    def dyld_info(self, *, bind: bytes = b"", weak: bytes = b"", lazy: bytes = b"") -> None:
        words = [0, 0]
        for index, data in enumerate((bind, weak, lazy)):
            words += self.table(LINKEDIT + 0x80 * index, data)
        self.command(0x80000022, pack(self.order + "10I", *words, 0, 0))

    def chained(self, data: bytes) -> None:
        self.command(0x80000034, pack(self.order + "2I", *self.table(LINKEDIT, data)))

    def built(self) -> bytes:
        count = len(self.symbols) // (16 if self.bits == 64 else 12)
        symbols, _ = self.table(0x1A00, self.symbols)
        strings, size = self.table(0x1C00, self.names)
        indirect, _ = self.table(0x1E00, pack(f"{self.order}{len(self.indirect)}I", *self.indirect))
        self.command(2, pack(self.order + "4I", symbols, count, strings, size))
        ranges = [0, 0, 0, count, 0, count, 0, 0, 0, 0, 0, 0]
        words = [*ranges, indirect, len(self.indirect), 0, 0, 0, 0]
        self.command(0xB, pack(self.order + "18I", *words))
        commands = self._segment() + b"".join(self.commands)
        number = 1 + len(self.commands)
        magic = 0xFEEDFACF if self.bits == 64 else 0xFEEDFACE
        words = [magic, self.cpu, self.subtype, self.filetype, number, len(commands), self.flags]
        header = pack(self.order + "7I", *words) + (bytes(4) if self.bits == 64 else b"")
        image = bytearray(self.size)
        image[: len(header) + len(commands)] = header + commands
        for _, _, vaddr, data, *_ in self.sections:
            image[vaddr - BASE : vaddr - BASE + len(data)] = data
        for at, data in self.tables:
            image[at : at + len(data)] = data
        return bytes(image)

    def _segment(self) -> bytes:
        wide = self.bits == 64
        word = "Q" if wide else "I"
        body = b"__ALL".ljust(16, b"\0") + pack(
            self.order + word * 4 + "4I",
            BASE,
            self.size,
            0,
            self.size,
            7,
            7,
            len(self.sections),
            0,
        )
        for segment, name, vaddr, data, flags, first, size in self.sections:
            body += name.encode().ljust(16, b"\0") + segment.encode().ljust(16, b"\0")
            body += pack(self.order + word * 2 + "I", vaddr, len(data), vaddr - BASE)
            body += pack(self.order + "6I", 0, 0, 0, flags, first, size)
            body += bytes(4) if wide else b""
        return pack(self.order + "II", 0x19 if wide else 1, 8 + len(body)) + body

    def open(self) -> MachoMap:
        return opened(self.built())


def opened(data: bytes) -> MachoMap:
    """Open the first image of `data`."""
    source = BufferSource(data)
    return MachoMap(source, fat.slices(source)[0])
