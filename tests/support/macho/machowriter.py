# SPDX-License-Identifier: Apache-2.0
"""Write small Mach-O images: what the decoders are tested with is made, not committed.

`Writer` lays sections, segments, symbols and load commands out; `machoshapes.py` beside it
makes of it what the linkers of twenty years have made.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tests.support.macho.machocode import ARCHS, Arch

EXECUTE, DYLIB, BUNDLE = 2, 6, 8
TWO_LEVEL = 0x80

# types of sections
REGULAR, ZEROFILL, CSTRINGS, LITERAL_POINTERS = 0, 1, 2, 5
NON_LAZY, LAZY, STUBS = 6, 7, 8
CODE = 0x80000400  # only instructions
SELF_MODIFYING = 0x04000000

LOCAL, ABSOLUTE = 0x80000000, 0x40000000  # of the indirect symbol table: no symbol

LOAD, WEAK_LOAD, REEXPORT, UPWARD = 0xC, 0x80000018, 0x8000001F, 0x80000023
HEADROOM = 0x1000  # for header and load commands
UUID = bytes.fromhex("00112233445566778899aabbccddeeff")


class Section:
    """A part of a segment; `data` is filled when addresses are known."""

    def __init__(
        self,
        segment: str,
        name: str,
        size: int,
        flags: int,
        align: int,
        reserved1: int,
        reserved2: int,
    ) -> None:
        self.segment = segment
        self.name = name
        self.size = size
        self.flags = flags
        self.align = align
        self.reserved1 = reserved1
        self.reserved2 = reserved2
        self.addr = 0
        self.offset = 0
        self.data = bytearray(size)


class Segment(NamedTuple):
    """Where a segment came to lie."""

    name: str
    addr: int
    size: int
    offset: int
    file_size: int
    protection: int


class Undefined(NamedTuple):
    """A symbol of the symbol table that is to be found elsewhere."""

    name: str
    ordinal: int
    weak: bool


class Writer:
    """Collects the parts of an image of one architecture; `build` returns its bytes."""

    def __init__(
        self, arch: str, kind: int = DYLIB, *, flags: int = TWO_LEVEL | 4, gap: int = 1
    ) -> None:
        self.arch: Arch = ARCHS[arch]
        self.kind = kind
        self.flags = flags
        # Addresses do not follow offsets: `gap` pages of nothing lie between segments.
        self.gap = gap * self.arch.page
        self.base = 0
        if kind == EXECUTE:
            self.base = 0x1000 if self.arch.bits == 32 else 1 << 32
        self.sections: list[Section] = []
        self.segments: list[Segment] = []
        self.libraries: list[tuple[str, int]] = []
        self.commands: list[bytes] = []
        self.defined: list[tuple[str, Section, int, bool]] = []
        self.undefined: list[Undefined] = []
        self.indirect: list[int] = []
        self.relocations: list[bytes] = []
        self.dyld_info: list[bytes] = []  # rebase, bind, weak bind, lazy bind, exports
        self.chained = b""

    def section(
        self,
        segment: str,
        name: str,
        size: int,
        flags: int = REGULAR,
        *,
        align: int = 4,
        reserved1: int = 0,
        reserved2: int = 0,
    ) -> Section:
        """Add a section; those of one segment must be added in a row."""
        one = Section(segment, name, size, flags, align, reserved1, reserved2)
        self.sections.append(one)
        return one

    def lay_out(self) -> None:
        """Give every section its address and its place in the file."""
        page, addr, offset = self.arch.page, self.base, 0
        if self.kind == EXECUTE:
            self.segments.append(Segment("__PAGEZERO", 0, self.base, 0, 0, 0))
        for name in dict.fromkeys(one.segment for one in self.sections):
            first = name == "__TEXT"
            start, begins = addr, offset
            inside = HEADROOM if first else 0
            stored = inside
            for one in self.sections:
                if one.segment == name:
                    inside += -inside % one.align
                    one.addr = start + inside
                    one.offset = begins + inside if one.flags & 0xFF != ZEROFILL else 0
                    inside += one.size
                    stored = inside if one.offset else stored
            addr = start + -(-inside // page) * page
            offset = begins + -(-stored // page) * page
            protection = 5 if first else 7 if name == "__IMPORT" else 3
            self.segments.append(
                Segment(name, start, addr - start, begins, offset - begins, protection)
            )
            addr += self.gap

    def places(self) -> list[tuple[int, int]]:
        """Return address and size of every segment, as bind opcodes number them."""
        return [(one.addr, one.size) for one in self.segments]

    def put(self, addr: int, data: bytes) -> None:
        """Write `data` at an address."""
        for one in self.sections:
            if one.addr <= addr and addr + len(data) <= one.addr + one.size:
                one.data[addr - one.addr : addr - one.addr + len(data)] = data
                return
        raise AssertionError(f"{addr:#x} is in no section")

    def offset(self, addr: int) -> int:
        """Return where an address is in the file."""
        for one in self.segments:
            if one.addr <= addr < one.addr + one.file_size:
                return addr - one.addr + one.offset
        raise AssertionError(f"{addr:#x} is not in the file")

    def number(self, symbol: str) -> int:
        """Return the index that a symbol will have in the symbol table."""
        names = [name for name, _, _, _ in self.defined]
        names += [one.name for one in self.undefined]
        return names.index(symbol)

    def build(self) -> bytes:
        """Return the file."""
        last = self.segments[-1]
        tail = bytearray()
        start = last.offset + last.file_size

        def place(data: bytes) -> tuple[int, int]:
            tail.extend(bytes(-len(tail) % 8))
            at = start + len(tail)
            tail.extend(data)
            return (at, len(data)) if data else (0, 0)

        pack = self.arch.pack
        info = [place(one) for one in self.dyld_info]
        chained = place(self.chained)
        symbols, strings = self._symbols()
        relocations = place(b"".join(self.relocations))[0]
        table = place(symbols)[0]
        indirect = place(b"".join(pack("I", one) for one in self.indirect))[0]
        text = place(strings)
        addr = last.addr + last.size + self.gap
        room = -(-len(tail) // self.arch.page) * self.arch.page
        link = Segment("__LINKEDIT", addr, room, start, len(tail), 1)

        commands = [self._segment(one) for one in [*self.segments, link]]
        if self.kind == DYLIB:
            commands.append(self._dylib(0xD, "/usr/lib/libself.dylib"))
        count, defined = len(symbols) // self._entry(), len(self.defined)
        commands.append(pack("IIIIII", 2, 24, table, count, *text))
        dysymtab = [0, 0, 0, defined, defined, count - defined, 0, 0, 0, 0, 0, 0]
        dysymtab += [indirect, len(self.indirect), relocations, len(self.relocations), 0, 0]
        commands.append(pack("I" * 20, 0xB, 80, *dysymtab))
        if info:
            commands.append(pack("I" * 12, 0x80000022, 48, *(n for pair in info for n in pair)))
        if chained[0]:
            commands.append(pack("IIII", 0x80000034, 16, *chained))
        commands.append(pack("II", 0x1B, 24) + UUID)
        commands += [self._dylib(command, name) for name, command in self.libraries]
        commands += self.commands
        body = b"".join(commands)
        head = pack(
            "IIIIIII",
            0xFEEDFACE + (self.arch.bits == 64),
            self.arch.cpu,
            self.arch.subtype,
            self.kind,
            len(commands),
            len(body),
            self.flags,
        )
        head += bytes(4 * (self.arch.bits == 64)) + body
        assert len(head) <= HEADROOM
        out = bytearray(start) + tail
        out[: len(head)] = head
        for one in self.sections:
            if one.offset:
                out[one.offset : one.offset + one.size] = one.data
        return bytes(out)

    def _entry(self) -> int:
        return 8 + self.arch.word

    def _symbols(self) -> tuple[bytes, bytes]:
        strings, out = bytearray(b" \0"), bytearray()
        for name, section, value, weak in self.defined:
            at = self.sections.index(section) + 1
            out += self.arch.pack("IBBHP", len(strings), 0xF, at, 0x80 * weak, value)
            strings += name.encode() + b"\0"
        for one in self.undefined:
            ordinal = {-1: 0xFF, -2: 0xFE, -3: 0xFE}.get(one.ordinal, one.ordinal)
            about = ordinal << 8 if self.flags & TWO_LEVEL else 0
            out += self.arch.pack("IBBHP", len(strings), 1, 0, about | 0x40 * one.weak, 0)
            strings += one.name.encode() + b"\0"
        return bytes(out), bytes(strings)

    def _segment(self, segment: Segment) -> bytes:
        inside = [one for one in self.sections if one.segment == segment.name]
        pack, wide = self.arch.pack, self.arch.bits == 64
        rows = b""
        for one in inside:
            rows += struct.pack("16s16s", one.name.encode(), one.segment.encode())
            rows += pack("PP", one.addr, one.size)
            align = one.align.bit_length() - 1
            rows += pack(
                "IIIIIII", one.offset, align, 0, 0, one.flags, one.reserved1, one.reserved2
            )
            rows += bytes(4 * wide)
        head = struct.pack("16s", segment.name.encode())
        head += pack("PPPP", segment.addr, segment.size, segment.offset, segment.file_size)
        head += pack("IIII", segment.protection, segment.protection, len(inside), 0)
        size = 8 + len(head) + len(rows)
        return pack("II", 0x19 if wide else 1, size) + head + rows

    def _dylib(self, command: int, name: str) -> bytes:
        return self.text(command, 24, name, 2, 0x10000, 0x10000)

    def text(self, command: int, size: int, text: str, *numbers: int) -> bytes:
        """Return a load command that ends with a text: LC_LOAD_DYLIB, LC_RPATH, …."""
        data = text.encode() + b"\0"
        data += bytes(-(size + len(data)) % 8)
        rest = self.arch.pack("I" * len(numbers), *numbers)
        return self.arch.pack("III", command, size + len(data), size) + rest + data


def fat(images: list[tuple[str, bytes]], *, wide: bool = False, align: int = 12) -> bytes:
    """Put images of several architectures into one file; `wide` with 64-bit offsets."""
    out = bytearray(struct.pack(">II", 0xCAFEBABE + wide, len(images)))
    body = bytearray()
    start = 1 << align
    for name, data in images:
        arch = ARCHS[name]
        body += bytes(-len(body) % (1 << align))
        codes = ">IIQQII" if wide else ">IIIII"
        extra = (0,) if wide else ()
        at = start + len(body)
        out += struct.pack(codes, arch.cpu, arch.subtype, at, len(data), align, *extra)
        body += data
    return bytes(out) + bytes(start - len(out)) + bytes(body)


def archive(members: list[tuple[str, bytes]]) -> bytes:
    """Return a static library with names in BSD's form, behind the header of each member."""
    out = bytearray(b"!<arch>\n")
    for name, data in members:
        text = name.encode()
        text += bytes(-(len(out) + 60 + len(text)) % 8)
        size = len(text) + len(data)
        head = f"#1/{len(text)}".ljust(16) + "0".ljust(12) + "0".ljust(6) * 2 + "644".ljust(8)
        out += (head + str(size).ljust(10) + "`\n").encode() + text + data
        out += b"\n" * (len(out) % 2)
    return bytes(out)
