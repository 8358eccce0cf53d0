# SPDX-License-Identifier: Apache-2.0
"""Start and end of functions, from the unwind tables, which a stripped file still has.

PT_GNU_EH_FRAME leads to .eh_frame_hdr, which leads to .eh_frame. That has CIEs, and one FDE for
each piece of code. LSB Core, "Exception Frames"; pointer encodings: LSB Core, "DWARF Exception
Header Encoding".
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.header import Segment
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken, take
from soscope.errors import FormatError

_OMIT = 0xFF
_PCREL, _DATAREL = 0x10, 0x30
_INDIRECT = 0x80
_ULEB, _SLEB = 0x01, 0x09
# format of an encoded pointer -> (bytes, is it signed); the size of an address depends on the
# class
_FIXED = {0x02: (2, False), 0x03: (4, False), 0x04: (8, False)}
_FIXED |= {0x0A: (2, True), 0x0B: (4, True), 0x0C: (8, True)}
_MAX_TABLE = 1 << 28


class Cursor:
    """The bytes of a table at link-time address `vaddr`, at `offset` of its source.

    `at` is the position of the next read, `end` the position where the entry ends.
    """

    __slots__ = ("at", "data", "end", "image", "offset", "vaddr")

    def __init__(self, image: ElfReader, data: bytes, vaddr: int) -> None:
        self.image = image
        self.data = data
        self.vaddr = vaddr
        self.offset = image.locate(vaddr)
        self.at = 0
        self.end = len(data)

    def broken(self, why: str) -> FormatError:
        """Return the error for the cursor's position."""
        return broken(self.image.source, ".eh_frame", self.offset + self.at, why)

    def number(self, size: int, *, signed: bool = False) -> int:
        """Read a number of `size` bytes."""
        if self.at + size > self.end:
            raise self.broken(f"{size} bytes expected, {self.end - self.at} found")
        raw = self.data[self.at : self.at + size]
        self.at += size
        is_little = self.image.encoding.order == "<"
        return int.from_bytes(raw, "little" if is_little else "big", signed=signed)

    def leb(self, *, signed: bool = False) -> int:
        """Read a LEB128 number."""
        value = shift = 0
        while shift < 70:  # ten bytes hold 64 bits
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value
        raise self.broken("a number without end")

    def text(self) -> bytes:
        """Read a string up to its NUL byte."""
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise self.broken("a string without end")
        text = self.data[self.at : end]
        self.at = end + 1
        return text

    def pointer(self, encoding: int, base: int) -> int:
        """Read an encoded pointer; `base` is the base address of data-relative pointers."""
        here = self.vaddr + self.at
        form = encoding & 0x0F
        if form in (_ULEB, _SLEB):
            value = self.leb(signed=form == _SLEB)
        elif form in (0x00, 0x08):
            value = self.number(self.image.encoding.bits // 8, signed=form == 0x08)
        elif form in _FIXED:
            size, signed = _FIXED[form]
            value = self.number(size, signed=signed)
        else:
            raise self.broken(f"unknown pointer encoding {encoding:#x}")
        kind = encoding & 0x70
        if kind == _PCREL:
            value += here
        elif kind == _DATAREL:
            value += base
        elif kind:
            raise self.broken(f"unknown pointer encoding {encoding:#x}")
        if encoding & _INDIRECT:
            raise self.broken(f"an indirect pointer, encoding {encoding:#x}")
        return value & (1 << self.image.encoding.bits) - 1


def code_ranges(image: ElfReader) -> list[tuple[int, int]]:
    """Return (link-time address, size in bytes) of each piece of code, in order of address.

    A function is one piece, or two if the compiler has split off its cold part. The list is empty
    if the file has no PT_GNU_EH_FRAME. Raises FormatError if the tables are damaged.
    """
    segment = next((header for header in image.segments if header.type == c.PT_GNU_EH_FRAME), None)
    if segment is None:
        return []
    start, places = _header(image, segment)
    lowest = min([start, *places]) if places else start
    home = next(
        (
            load
            for load in image.segments
            if load.type == c.PT_LOAD and 0 <= lowest - load.vaddr < load.filesz
        ),
        None,
    )
    if home is None:
        raise broken(image.source, "eh_frame_ptr", segment.offset, f"leads nowhere: {lowest:#x}")
    # only the table of its entries, or a length of zero, tells where .eh_frame ends
    size = min(home.vaddr + home.filesz - lowest, _MAX_TABLE)
    cursor = Cursor(image, image.source.read(image.locate(lowest), size), lowest)
    return sorted(set(_ranges(cursor, [place - lowest for place in places])))


def _header(image: ElfReader, segment: Segment) -> tuple[int, list[int]]:
    """Return the link-time address of .eh_frame, and the sorted addresses of its FDEs."""
    at = image.locate(segment.vaddr)
    head = take(image.source, at, 4, ".eh_frame_hdr")
    if head[0] != 1:
        raise broken(image.source, ".eh_frame_hdr", at, f"unknown version {head[0]}")
    if head[1] == _OMIT:
        raise broken(image.source, "eh_frame_ptr", at + 1, "there is none")
    size = min(segment.filesz, _MAX_TABLE)
    cursor = Cursor(image, image.source.read(at, size), segment.vaddr)
    cursor.at = 4
    start = cursor.pointer(head[1], segment.vaddr)
    if _OMIT in (head[2], head[3]):
        return start, []
    count = cursor.pointer(head[2], segment.vaddr)
    if count > len(cursor.data) - cursor.at:
        raise cursor.broken(f"a table of {count} entries")
    places = []
    for _ in range(count):
        cursor.pointer(head[3], segment.vaddr)
        places.append(cursor.pointer(head[3], segment.vaddr))
    return start, sorted(places)


def _ranges(cursor: Cursor, places: list[int]) -> list[tuple[int, int]]:
    """Read the FDEs at `places`; if that is empty, all FDEs up to a length of zero."""
    ranges: list[tuple[int, int]] = []
    encodings: dict[int, int] = {}
    whole = cursor.end
    following = iter(places)
    while places or cursor.at + 4 <= whole:
        cursor.end = whole
        if places:
            place = next(following, None)
            if place is None:
                break
            cursor.at = place
        length = cursor.number(4)
        if length == 0xFFFFFFFF:
            length = cursor.number(8)
        if not length:
            break
        start = cursor.at
        if length > whole - start:
            raise cursor.broken(f"an entry of {length} bytes, {whole - start} are left")
        cursor.end = start + length
        back = cursor.number(4)
        if back:
            owner = start - back
            if owner not in encodings:
                encodings[owner] = _pointer_encoding(cursor, owner)
            cursor.at = start + 4
            vaddr = cursor.pointer(encodings[owner], 0)
            # the size has the address's format, but is a plain number
            size = cursor.pointer(encodings[owner] & 0x0F, 0)
            if vaddr and size:
                ranges.append((vaddr, size))
        cursor.at = start + length
    return ranges


def _pointer_encoding(cursor: Cursor, owner: int) -> int:
    """Return how the FDEs of the CIE at `owner` encode their addresses."""
    if not 0 <= owner < len(cursor.data):
        raise cursor.broken("an FDE that belongs to no CIE")
    ends, cursor.end = cursor.end, len(cursor.data)
    cursor.at = owner
    try:
        if cursor.number(4) == 0xFFFFFFFF:
            cursor.number(8)
        return CommonEntry(cursor).encoding
    finally:
        cursor.end = ends


class CommonEntry:
    """A CIE: the data that its FDEs share (LSB Core, 10.6.1.1).

    `code` and `data` are the factors of advances and offsets. `returns` is the column of the
    return address, `encoding` the encoding of addresses. If `has_size` is true, the FDEs contain
    the length of their augmentation data, as the CIE does. If `signal` is true, the kernel calls
    the code. `program` is the position of the entry and of its instructions.
    """

    __slots__ = (
        "augmentation",
        "code",
        "data",
        "encoding",
        "has_size",
        "program",
        "returns",
        "signal",
    )

    def __init__(self, cursor: Cursor) -> None:
        """Read the entry from behind its length. Raises FormatError."""
        if cursor.number(4):
            raise cursor.broken("an FDE that belongs to another FDE")
        version = cursor.number(1)
        if version not in (1, 3, 4):
            raise cursor.broken(f"unknown version {version} of a CIE")
        self.augmentation = cursor.text()
        if version == 4:
            cursor.number(2)
        self.code = cursor.leb()
        self.data = cursor.leb(signed=True)
        self.returns = cursor.number(1) if version == 1 else cursor.leb()
        self.encoding = 0
        self.has_size = self.augmentation.startswith(b"z")
        self.signal = False
        self.program = (0, 0)
        if self.has_size:
            size = cursor.leb()
            rest = cursor.at + size
            self._augment(cursor)
            cursor.at = rest

    def _augment(self, cursor: Cursor) -> None:
        for letter in self.augmentation[1:]:
            if letter == ord("R"):
                self.encoding = cursor.number(1)
            elif letter == ord("P"):
                cursor.pointer(cursor.number(1) & 0x7F, 0)
            elif letter == ord("L"):
                cursor.number(1)
            elif letter == ord("S"):
                self.signal = True
            elif letter != ord("B"):
                raise cursor.broken(f"unknown augmentation {self.augmentation!r}")
