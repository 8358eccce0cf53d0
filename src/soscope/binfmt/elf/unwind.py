# SPDX-License-Identifier: Apache-2.0
"""Unwind tables: where functions begin and end, and how to find the caller's frame."""

from __future__ import annotations

import sys
from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader, Segment
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import broken, sleb, take, uleb
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Register = Callable[[int], int | None]
    Word = Callable[[int], int | None]


# Start and end of functions, from the unwind tables, which a stripped file still has.
#
# PT_GNU_EH_FRAME leads to .eh_frame_hdr, which leads to .eh_frame. That has CIEs, and one FDE for
# each piece of code. LSB Core, "Exception Frames"; pointer encodings: LSB Core, "DWARF Exception
# Header Encoding".

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
        try:
            value, behind = (sleb if signed else uleb)(self.data, self.at)
        except IndexError:
            behind = self.end + 1
        if behind > self.end:
            raise self.broken("a number without end")
        self.at = behind
        return value

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


# Find the caller's frame of a frame, by the unwind tables.
#
# DWARF 5, 6.4 "Call Frame Information", in the form of .eh_frame: LSB Core, "Exception Frames".

# Kinds of rules to find the caller's value of a register.
AT_CFA = "at cfa"  # it is stored at CFA plus an offset
CFA_PLUS = "cfa plus"  # it is CFA plus an offset
IN_REGISTER = "register"
AT_EXPRESSION = "at expression"
EXPRESSION = "expression"
UNDEFINED = "undefined"

Rule = tuple[str, int | bytes]
Rules = dict[int, Rule]
Registers = dict[int, int | None]  # column -> value, None if not known

_SECTION = ".eh_frame"
_MOST_SCANNED = 4 << 20  # bytes, about a second of work
_TABLE = 0x3B  # DW_EH_PE_datarel | DW_EH_PE_sdata4, as all linkers write
_MOST_STEPS = 100_000


class Row:
    """The unwind rules at one address of code.

    The canonical frame address (CFA) is `register` plus `offset`, or the value of `expression`.
    `returns` is the column that holds the return address. If `is_signal` is true, the kernel made
    the frame for a signal handler, so the caller's address is not a return address.
    """

    __slots__ = ("expression", "is_signal", "offset", "register", "returns", "rules")

    @property
    def is_last(self) -> bool:
        """Return whether the frame has no caller: its return address has the rule "undefined"."""
        return self.rules.get(self.returns, (None,))[0] == UNDEFINED

    def __init__(self) -> None:
        self.register = 0
        self.offset = 0
        self.expression: bytes | None = None
        self.rules: Rules = {}
        self.returns = 0
        self.is_signal = False


class FrameTable:
    """The unwind tables of one image. Raises FormatError if they are damaged or unusable."""

    __slots__ = ("_base", "_image", "_places", "_starts")

    def __init__(self, image: ElfReader) -> None:
        self._image = image
        from array import array  # it loads collections.abc, which the start of `mem run` does not

        # offsets from `_base`, as the file has them: converting a million entries would be slow
        self._base = 0
        self._starts = self._places = memoryview(array("i"))
        segment = next((entry for entry in image.segments if entry.type == c.PT_GNU_EH_FRAME), None)
        if segment is None:
            self._without_header()
            return
        data = image.source.read(image.locate(segment.vaddr), segment.filesz)
        cursor = Cursor(image, data, segment.vaddr)
        if data[:1] != b"\x01" or data[3:4] != bytes((_TABLE,)):
            raise cursor.broken("no table of its entries")
        cursor.at = 4
        cursor.pointer(data[1], segment.vaddr)
        count = cursor.pointer(data[2], segment.vaddr)
        if count > (len(data) - cursor.at) // 8:
            raise cursor.broken(f"a table of {count} entries")
        table = array("i", data[cursor.at : cursor.at + 8 * count])
        if (image.encoding.order == "<") != (sys.byteorder == "little"):
            table.byteswap()
        self._base = segment.vaddr
        self._starts, self._places = memoryview(table)[::2], memoryview(table)[1::2]

    def _without_header(self) -> None:
        """Make the table of an image without .eh_frame_hdr, such as a static program of gcc's.

        The dynamic loader needs that header. If the image has no section headers either, there is
        no table.
        """
        sections = Sections.read(self._image).all
        tables = [section for section in sections if section.name == _SECTION and section.vaddr]
        if not tables or tables[0].size > _MOST_SCANNED:
            return
        place, end = tables[0].vaddr, tables[0].vaddr + tables[0].size
        self._base = place
        places: dict[int, int] = {}
        while place < end:
            offset = self._image.locate(place)
            length = Cursor(self._image, self._image.source.read(offset, 4), place).number(4)
            if not length or length == 0xFFFFFFFF:
                break
            cursor = self._entry(place)
            body = cursor.at
            if back := cursor.number(4):
                start = cursor.pointer(self._common(place + body - back).encoding, 0)
                places[start - self._base] = place - self._base
            place += body + length
        from array import array

        starts = sorted(start for start in places if -1 << 31 <= start < 1 << 31)
        self._starts = memoryview(array("i", starts))
        self._places = memoryview(array("i", [places[start] for start in starts]))

    def start(self, vaddr: int) -> int | None:
        """Return the start of the function that may contain a link-time address, or None."""
        at = bisect_right(self._starts, vaddr - self._base) - 1
        return self._base + self._starts[at] if at >= 0 else None

    def extent(self, vaddr: int) -> tuple[int, int] | None:
        """Return [start, end) of the function that contains a link-time address, or None."""
        function = self._function(vaddr)
        return None if function is None else function[2:]

    def row(self, vaddr: int) -> Row | None:
        """Return the unwind rules at a link-time address, None if the tables have none for it."""
        known = self.row_and_extent(vaddr)
        return None if known is None else known[0]

    def row_and_extent(self, vaddr: int) -> tuple[Row, int, int] | None:
        """Return the unwind rules, and the link-time addresses [start, end) where they hold."""
        function = self._function(vaddr)
        if function is None:
            return None
        cursor, common, start, end = function
        if common.has_size:
            cursor.at += cursor.leb()
        owner = self._entry(common.program[0])
        owner.at = common.program[1]
        machine = _RowMachine(common)
        machine.run(owner, common.encoding, 0, -1)
        machine.initial = dict(machine.row.rules)
        machine.run(cursor, common.encoding, start, vaddr)
        machine.row.returns, machine.row.is_signal = common.returns, common.signal
        return machine.row, machine.start, min(machine.end or end, end)

    def _function(self, vaddr: int) -> tuple[Cursor, CommonEntry, int, int] | None:
        """Return a function's FDE as a cursor behind its size, its CIE, and [start, end)."""
        at = bisect_right(self._starts, vaddr - self._base) - 1
        if at < 0:
            return None
        place = self._base + self._places[at]
        cursor = self._entry(place)
        body = cursor.at
        back = cursor.number(4)
        if not back:
            raise cursor.broken("an FDE that belongs to no CIE")
        common = self._common(place + body - back)
        start = cursor.pointer(common.encoding, 0)
        size = cursor.pointer(common.encoding & 0x0F, 0)
        return (cursor, common, start, start + size) if start <= vaddr < start + size else None

    def _entry(self, place: int) -> Cursor:
        """Return a cursor behind the length of the entry at a link-time address."""
        source, offset = self._image.source, self._image.locate(place)
        head = Cursor(self._image, source.read(offset, 12), place)
        length = head.number(4)
        if length == 0xFFFFFFFF:
            length = head.number(8)
        if not 0 < length < 1 << 24:
            raise head.broken(f"an entry of {length} bytes")
        cursor = Cursor(self._image, source.read(offset, head.at + length), place)
        cursor.at = head.at
        return cursor

    def _common(self, place: int) -> CommonEntry:
        cursor = self._entry(place)
        common = CommonEntry(cursor)
        if common.augmentation and not common.has_size:
            raise cursor.broken(f"unknown augmentation {common.augmentation!r}")
        common.program = place, cursor.at
        return common


class _RowMachine:
    """Runs the instructions of an entry up to one address of code."""

    __slots__ = ("_common", "_kept", "end", "initial", "row", "start")

    def __init__(self, common: CommonEntry) -> None:
        self._common = common
        self.start = self.end = 0  # code where the row holds; end 0: to the end of the function
        self._kept: list[tuple[int, int, bytes | None, Rules]] = []
        self.initial: Rules = {}
        self.row = Row()

    def run(self, cursor: Cursor, encoding: int, start: int, until: int) -> None:
        """Run the rest of the entry, up to address `until`; all of it if `until` is -1."""
        place = self.start = start
        for _ in range(_MOST_STEPS):
            if cursor.at >= cursor.end:
                return
            code = cursor.number(1)
            high, low = code & 0xC0, code & 0x3F
            if high == 0x40 or code in (0x01, 0x02, 0x03, 0x04):
                if high:
                    place += low * self._common.code
                elif code == 0x01:
                    place = cursor.pointer(encoding, 0)
                else:
                    place += cursor.number(1 << code - 2) * self._common.code
                if 0 <= until < place:
                    self.end = place
                    return
                self.start = place
            elif high == 0x80:
                self.row.rules[low] = AT_CFA, cursor.leb() * self._common.data
            elif high == 0xC0:
                self._restore(low)
            else:
                self._take(cursor, code)
        raise cursor.broken("an entry without end")

    def _restore(self, register: int) -> None:
        self.row.rules.pop(register, None)
        if register in self.initial:
            self.row.rules[register] = self.initial[register]

    def _take(self, cursor: Cursor, code: int) -> None:
        row, data = self.row, self._common.data
        if code == 0x00:  # nop
            return
        if code == 0x0A:  # remember_state
            self._kept.append((row.register, row.offset, row.expression, dict(row.rules)))
        elif code == 0x0B:  # restore_state
            if not self._kept:
                raise cursor.broken("restore_state without remember_state")
            row.register, row.offset, row.expression, row.rules = self._kept.pop()
        elif code in (0x0C, 0x12):  # def_cfa, def_cfa_sf
            row.register = cursor.leb()
            row.offset = cursor.leb() if code == 0x0C else cursor.leb(signed=True) * data
            row.expression = None
        elif code == 0x0D:  # def_cfa_register
            row.register = cursor.leb()
        elif code in (0x0E, 0x13):  # def_cfa_offset, def_cfa_offset_sf
            row.offset = cursor.leb() if code == 0x0E else cursor.leb(signed=True) * data
        elif code == 0x0F:  # def_cfa_expression
            row.expression = _block(cursor)
        elif code == 0x2E:  # GNU_args_size
            cursor.leb()
        else:
            self._rule(cursor, code)

    def _rule(self, cursor: Cursor, code: int) -> None:
        register, data, rules = cursor.leb(), self._common.data, self.row.rules
        if code == 0x05:  # offset_extended
            rules[register] = AT_CFA, cursor.leb() * data
        elif code == 0x06:  # restore_extended
            self._restore(register)
        elif code == 0x07:  # undefined
            rules[register] = UNDEFINED, 0
        elif code == 0x08:  # same_value
            rules.pop(register, None)
        elif code == 0x09:  # register
            rules[register] = IN_REGISTER, cursor.leb()
        elif code == 0x10:  # expression
            rules[register] = AT_EXPRESSION, _block(cursor)
        elif code == 0x16:  # val_expression
            rules[register] = EXPRESSION, _block(cursor)
        elif code == 0x11:  # offset_extended_sf
            rules[register] = AT_CFA, cursor.leb(signed=True) * data
        elif code in (0x14, 0x15):  # val_offset, val_offset_sf
            rules[register] = CFA_PLUS, cursor.leb(signed=code == 0x15) * data
        else:
            raise cursor.broken(f"unknown instruction {code:#x}")


def _block(cursor: Cursor) -> bytes:
    size = cursor.leb()
    if size > cursor.end - cursor.at:
        raise cursor.broken(f"an expression of {size} bytes")
    cursor.at += size
    return cursor.data[cursor.at - size : cursor.at]


def caller(row: Row, registers: Registers, read: Word, stack_pointer: int) -> Registers:
    """Return the registers of a frame's caller; column `row.returns` is its program counter.

    `stack_pointer` is the column of the stack pointer. `read` returns a word of memory, None if
    it is not known. Raises FormatError if the caller's frame cannot be determined.
    """
    if row.expression is not None:
        cfa = evaluate(row.expression, [], registers.get, read)
    else:
        base = registers.get(row.register)
        if base is None:
            raise FormatError("a register that is not known")
        cfa = base + row.offset
    above = registers | {stack_pointer: cfa, row.returns: None}
    for number, (kind, value) in row.rules.items():
        above[number] = None
        if isinstance(value, bytes):
            place = evaluate(value, [cfa], registers.get, read)
            if kind == EXPRESSION:
                above[number] = place
            elif kind == AT_EXPRESSION:
                above[number] = read(place)
        elif kind == AT_CFA:
            above[number] = read(cfa + value)
        elif kind == CFA_PLUS:
            above[number] = cfa + value
        elif kind == IN_REGISTER:
            above[number] = registers.get(value)
    return above


def evaluate(code: bytes, stack: list[int], register: Register, read: Word) -> int:
    """Return the value of an expression in unwind tables (DWARF 5, 2.5).

    `register` and `read` return a register and a word of memory, None if unknown. Raises
    FormatError for operations that unwind tables do not use, and if a needed value is unknown.
    """
    at = 0

    def leb(*, signed: bool) -> int:
        nonlocal at
        try:
            value, at = (sleb if signed else uleb)(code, at)
        except IndexError:
            raise FormatError("an expression that ends too soon") from None
        return value

    def known(value: int | None) -> int:
        if value is None:
            raise FormatError("an expression that needs an unknown value")
        return value

    def number(size: int, *, signed: bool = False) -> int:
        nonlocal at
        at += size
        return int.from_bytes(code[at - size : at], "little", signed=signed)

    try:
        for _ in range(_MOST_STEPS):
            if at >= len(code):
                break
            step = code[at]
            at += 1
            if 0x30 <= step < 0x50:  # lit0…
                stack.append(step - 0x30)
            elif 0x70 <= step < 0x90:  # breg0…
                stack.append(known(register(step - 0x70)) + leb(signed=True))
            elif step in (0x08, 0x0A, 0x0C, 0x0E):  # const1u…
                stack.append(number(1 << (step - 0x08) // 2))
            elif step in (0x09, 0x0B, 0x0D, 0x0F):  # const1s…
                stack.append(number(1 << (step - 0x09) // 2, signed=True))
            elif step == 0x06:  # deref
                stack.append(known(read(stack.pop() & _WORD)))
            elif step == 0x94:  # deref_size
                mask = (1 << 8 * number(1)) - 1
                stack.append(known(read(stack.pop() & _WORD)) & mask)
            elif step == 0x28:  # bra
                way = number(2, signed=True)
                at += way if stack.pop() else 0
                if at < 0:
                    raise FormatError("an expression that goes before its beginning")
            elif step == 0x16:  # swap
                stack[-2:] = stack[-1], stack[-2]
            elif step == 0x23:  # plus_uconst
                stack[-1] += leb(signed=False)
            elif step == 0x12:  # dup
                stack.append(stack[-1])
            elif step in _TWO:
                right, left = stack.pop(), stack.pop()
                stack.append(_TWO[step](left, right))
            else:
                raise FormatError(f"unknown step {step:#x} of an expression")
        else:
            raise FormatError("an expression without end")
        return stack[-1] & _WORD
    except IndexError:
        raise FormatError("an expression that pops from an empty stack") from None


_WORD = (1 << 64) - 1
_TWO: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda left, right: left & right,
    0x1C: lambda left, right: left - right,
    0x21: lambda left, right: left | right,
    0x22: lambda left, right: left + right,
    0x24: lambda left, right: left << (right & 63),
    0x25: lambda left, right: (left & _WORD) >> (right & 63),
    0x29: lambda left, right: int(left == right),
    0x2A: lambda left, right: int(left >= right),
    0x2B: lambda left, right: int(left > right),
    0x2C: lambda left, right: int(left <= right),
    0x2D: lambda left, right: int(left < right),
    0x2E: lambda left, right: int(left != right),
}
