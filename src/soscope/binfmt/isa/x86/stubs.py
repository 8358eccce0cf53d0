# SPDX-License-Identifier: Apache-2.0
"""Stubs on x86-64, x32 and i386 in ELF and Mach-O files: their forms and slots."""

from __future__ import annotations

import re
from struct import Struct, unpack_from

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.slots import symbols_of, tables
from soscope.binfmt.macho.stubs import MachoDecoder, StubHelper, StubWay
from soscope.binfmt.stubs.finder import Code, Decoder, FoundStub, SlotTable
from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub
from soscope.errors import FormatError
from soscope.model.arch import EM_386, EM_X86_64, Arch
from soscope.model.filemap import IPLT, PLT, PLT_GOT, PLT_SEC, RETPOLINE, FileSlot
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

# Stubs and stub helpers of x86_64 and i386, as Apple's linkers, lld and zig write them.
#
# The linkers write these sequences:
#
#     x86_64  jmp *slot(%rip)                                     __stubs, __symbol_stub1
#             mov selector(%rip), %rsi; jmp *slot(%rip)           __objc_stubs
#             push $offset; jmp shared                            helper
#             lea slot(%rip), %r11; jmp shared                    helper before LC_DYLD_INFO
#             lea cache(%rip), %r11; push %r11; jmp *binder(%rip) code shared by the helpers
#     i386    jmp *slot [; push $slot; jmp shared]                __stubs, __symbol_stub
#             call 1f; 1: pop %eax; mov slot-1b(%eax), %edx; jmp *%edx    __picsymbol_stub
#               [; lea slot-1b(%eax), %eax; push %eax; jmp shared]
#             push $offset or $slot; jmp shared                   helper
#             push $cache; jmp *binder                            code shared by the helpers
#             hlt or jmp, five bytes                              __jump_table

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF


def macho_decoder(bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    if bits == 64:
        return MachoDecoder(macho_stub64, macho_helper64, 1)
    return MachoDecoder(macho_stub32, macho_helper32, 1)


def macho_stub64(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub of x86_64, None if there is none."""
    if code.startswith(b"\xff\x25", at) and len(code) >= at + 6:
        return StubWay(6, slot=vaddr + 6 + _i32(code, at + 2) & _M64)
    if code.startswith(b"\x48\x8b\x35", at) and len(code) >= at + 13:
        selector = vaddr + 7 + _i32(code, at + 3) & _M64
        if code.startswith(b"\xff\x25", at + 7):
            slot = vaddr + 13 + _i32(code, at + 9) & _M64
            return StubWay(13, slot=slot, selector_at=selector)
        if code[at + 7] == 0xE9:
            target = vaddr + 12 + _i32(code, at + 8) & _M64
            return StubWay(12, target=target, selector_at=selector)
    return None


def macho_helper64(code: bytes, at: int, vaddr: int) -> StubHelper | None:
    """Decode a stub helper of x86_64; the code that all helpers share is not a helper."""
    if code.startswith(b"\x68", at) and code.startswith(b"\xe9", at + 5) and len(code) >= at + 10:
        (offset,) = unpack_from("<I", code, at + 1)
        return StubHelper(vaddr, 10, offset, None, vaddr + 10 + _i32(code, at + 6) & _M64)
    if (
        code.startswith(b"\x4c\x8d\x1d", at)
        and code.startswith(b"\xe9", at + 7)
        and len(code) >= at + 12
    ):
        slot = vaddr + 7 + _i32(code, at + 3) & _M64
        return StubHelper(vaddr, 12, None, slot, vaddr + 12 + _i32(code, at + 8) & _M64)
    return None


def macho_stub32(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub of i386; entries of a __jump_table have no code to decode."""
    if code.startswith(b"\xff\x25", at) and len(code) >= at + 6:
        (slot,) = unpack_from("<I", code, at + 2)
        size = 16 if code.startswith(b"\x68", at + 6) and code[at + 11 : at + 12] == b"\xe9" else 6
        return StubWay(size, slot=slot)
    if (
        code.startswith(b"\xe8\0\0\0\0\x58\x8b\x90", at)
        and code.startswith(b"\xff\xe2", at + 12)
        and len(code) >= at + 14
    ):
        slot = vaddr + 5 + _i32(code, at + 8) & _M32
        size = 26 if code.startswith(b"\x8d\x80", at + 14) else 14
        return StubWay(size, slot=slot, relative=True)
    return None


def macho_helper32(code: bytes, at: int, vaddr: int) -> StubHelper | None:
    """Decode a stub helper of i386, the second half of a stub included."""
    if code.startswith(b"\x68", at) and code.startswith(b"\xe9", at + 5) and len(code) >= at + 10:
        # An offset and an address look the same here. The caller, who knows the sections, decides.
        (number,) = unpack_from("<I", code, at + 1)
        return StubHelper(vaddr, 10, number, number, vaddr + 10 + _i32(code, at + 6) & _M32)
    if (
        code.startswith(b"\x8d\x80", at)
        and code.startswith(b"\x50\xe9", at + 6)
        and len(code) >= at + 12
    ):
        # EAX holds the return address of the stub's own call, nine bytes before this half.
        slot = vaddr - 9 + _i32(code, at + 2) & _M32
        return StubHelper(vaddr, 12, None, slot, vaddr + 12 + _i32(code, at + 8) & _M32)
    return None


def _i32(code: bytes, at: int) -> int:
    (value,) = unpack_from("<i", code, at)
    return int(value)


# The linker's stubs in code of x86-64 and i386, as GNU ld, gold, LLD and mold write them.
#
# x86-64 and i386 psABI, "Procedure Linkage Table". Code counts as a stub only if it jumps through a
# slot that a relocation fills. A stub is aligned to its size, 8 or 16 bytes; a stub with an index
# beside its jump may be anywhere. On x86-64 it addresses its slot by a displacement from the end of
# an instruction. On i386 it does so by address or, in position-independent code, by the distance
# from _GLOBAL_OFFSET_TABLE_, which %ebx holds.
#
# Attaching to a process uses this module, so it imports nothing that would delay the start.

# Forms of stubs: with a lazy half behind the jump, without one, or with a return as its jump.
LAZY = "lazy"
SHORT = "short"  # 8 bytes long
FULL = "full"  # 16 bytes long
RETURN = "return"

Row = tuple[int, int, int, str]  # vaddr, size, slot, form

# [endbr64] [mov $index, %r11d] [bnd] jmp *disp(%rip). It is tried at every byte, so that no chance
# match within one hides the next.
_JUMP_64 = re.compile(
    rb"(?=((?:\xf3\x0f\x1e\xfa)?(?:\x41\xbb.{4})?\xf2?\xff\x25(.{4})))", re.DOTALL
)
# mov disp(%rip), %r11; call or jmp to code that jumps by a return. The bytes behind it distinguish
# it from code that only loads the slot: they are the lazy half, or filling up to the next stub.
_RETURN_64 = re.compile(
    rb"(?=(\x4c\x8b\x1d(.{4}))(?:\xe8.{4}\xe9.{4}\x68.{4}\xe9|\xe9.{4}\xcc{4}))", re.DOTALL
)
# [endbr32] [mov $index, %ecx] jmp *addr, or jmp *disp(%ebx)
_JUMP_32 = re.compile(
    rb"(?=((?:\xf3\x0f\x1e\xfb)?(?:\xb9.{4})?\xf2?\xff([\x25\xa3])(.{4})))", re.DOTALL
)
# push %eax; mov addr, %eax or mov disp(%ebx), %eax; call to code that jumps by a return
_RETURN_32 = re.compile(
    rb"(?=(\x50(?:\xa1|\x8b(\x83))(.{4}))\xe8.{4}\xe9.{4}\x68.{4}\xe9)", re.DOTALL
)
# bytes behind the jump: the lazy half, or filling up to the next stub
_LAZY = re.compile(rb"\x68.{4}\xf2?\xe9", re.DOTALL)
_FILLED = re.compile(
    rb"\x66?\x90|\x66?\x0f\x1f[\0\x40\x44\x80\x84]|\xcc|\0\0|\x8d[\x74\xb4]\x26", re.DOTALL
)
# [endbr] push $argument
PUSHED = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?\x68(.{4})", re.DOTALL)
# … [bnd] jmp PLT0
LAZY_HALF = re.compile(PUSHED.pattern + rb"\xf2?\xe9", re.DOTALL)
# mold: [endbr] mov $argument, %r11d or %ecx, in the stub
MOVED = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?(?:\x41\xbb|\xb9)(.{4})", re.DOTALL)
# [endbr; push %r11] push GOT[1]; [bnd] jmp *GOT[2]
FIRST_STUB = re.compile(
    rb"(?:\xf3\x0f\x1e\xfa\x41\x53)?\xff[\x35\xb3].{4}\xf2?\xff[\x25\xa3]"
    # mold, i386: endbr; push %ecx; lea GOT[1], %ecx; push (%ecx); jmp *4(%ecx)
    rb"|\xf3\x0f\x1e\xfb\x51(?:\x8d\x8b|\xb9).{4}\xff\x31\xff\x61\x04",
    re.DOTALL,
)
# a lazy stub that also has the index: jmp *disp(%ebx); push $offset, or with mold in reverse order
_TOLD = re.compile(rb"\xff\xa3(.{4})\x68(.{4})|\xb9(.{4})\xff\xa3(.{4})", re.DOTALL)
# call to the next instruction, or to a function that loads its return address into %ebx; [pop
# %ebx]; add $distance, %ebx
_LOADED = re.compile(rb"\xe8.{4}(\x5b?)\x81\xc3(.{4})", re.DOTALL)
# entries of nearly all PLTs of x86-64, and the push at the start of the first stub:
_ENTRY_64 = Struct("<HiBIBi")  # jmp *disp(%rip); push $index; jmp to the first
_SECOND_64 = Struct("<IHi6s")  # endbr64; jmp *disp(%rip); nopw 0(%rax,%rax)
_ENDBR_64, _NOPW = 0xFA1E0FF3, b"\x66\x0f\x1f\x44\0\0"
_JMP_64, _PUSH, _JMP = 0x25FF, 0x68, 0xE9
_FIRST = (b"\xff\x35", b"\xff\xb3")  # push GOT[1], in front of the jump of the first stub
_BY_ADDRESS = b"\x25"
_SHORT = 8
SIZE = _FULL = 16  # bytes of most stubs
_LONG = 32
_REL = 8  # bytes of a relocation of i386
_MASK_64 = (1 << 64) - 1
_MASK_32 = (1 << 32) - 1


def regular_64(data: bytes, base: int) -> tuple[list[tuple[int, int]], str] | None:
    """Return (vaddr, slot) of each stub of a section at `base`, and the form of all of them.

    Return None if the stubs differ in form or have gaps. `stubs_64` handles all cases, but
    slowly.
    """
    if len(data) % _FULL:
        return None
    starts = range(base, base + len(data), _FULL)
    if data[:2] == b"\xff\x35":
        entries = list(_ENTRY_64.iter_unpack(data))[1:]
        places = [
            (start, start + 6 + distance & _MASK_64)
            for start, (jump, distance, push, _, back, _) in zip(starts[1:], entries, strict=True)
            if jump == _JMP_64 and push == _PUSH and back == _JMP
        ]
        return (places, LAZY) if len(places) == len(entries) else None
    if data[:6] == b"\xf3\x0f\x1e\xfa\xff\x25":
        places = [
            (start, start + 10 + distance & _MASK_64)
            for start, (endbr, jump, distance, fill) in zip(
                starts, _SECOND_64.iter_unpack(data), strict=True
            )
            if endbr == _ENDBR_64 and jump == _JMP_64 and fill == _NOPW
        ]
        return (places, FULL) if len(places) == len(starts) else None
    return None


def stubs_64(
    data: bytes, base: int, slots: Container[int], origin: int, *, is_plt: bool
) -> Iterator[Row]:
    """Yield the stubs in code at `base`; stubs that jump by a return come last.

    Stubs are aligned as their section, which begins at `origin`, 0 if that is not known. In a
    section of stubs (`is_plt`), stubs without a slot are included, too.
    """
    from_bytes = int.from_bytes
    free = 0  # end of the last stub
    for match in _JUMP_64.finditer(data):
        at, end = match.span(1)
        start = base + at
        if at < free or (start - origin & 7 and not _is_sure(data, at, end)):
            continue
        slot = base + end + from_bytes(match[2], "little", signed=True) & _MASK_64
        if is_plt or slot in slots:
            size, form = _form(data, at, end, start - origin)
            if size:
                free = at + size
                yield start, size, slot, form
    for match in _RETURN_64.finditer(data):
        start, end = base + match.start(), match.end(1)
        slot = base + end + from_bytes(match[2], "little", signed=True) & _MASK_64
        if not start - origin & 15 and (is_plt or slot in slots):
            yield start, _LONG if data[end] == 0xE8 else _FULL, slot, RETURN


def stubs_32(
    data: bytes, base: int, slots: Container[int], origin: int, got: int, *, is_plt: bool
) -> Iterator[Row]:
    """Yield the stubs as `stubs_64` does; distances count from `got`."""
    from_bytes = int.from_bytes
    free = 0
    for match in _JUMP_32.finditer(data):
        at, end = match.span(1)
        start = base + at
        if at < free or (start - origin & 7 and not _is_sure(data, at, end)):
            continue
        slot = from_bytes(match[3], "little")
        if match[2] != _BY_ADDRESS:
            slot = slot + got & _MASK_32
        if is_plt or slot in slots:
            size, form = _form(data, at, end, start - origin)
            if size:
                free = at + size
                yield start, size, slot, form
    for match in _RETURN_32.finditer(data):
        start = base + match.start()
        slot = from_bytes(match[3], "little")
        if match[2] is not None:
            slot = slot + got & _MASK_32
        if not start - origin & 15 and (is_plt or slot in slots):
            yield start, _LONG, slot, RETURN


def _is_sure(data: bytes, at: int, end: int) -> bool:
    """Return whether a jump through a slot has an index beside it, and so is a stub anywhere."""
    return end - at >= _FULL - 1 or _LAZY.match(data, end) is not None


def _form(data: bytes, at: int, end: int, place: int) -> tuple[int, str]:
    """Return size and form of a stub from `at` to the `end` of its jump, size 0 if it is none.

    `place` is its distance from the start of its section.
    """
    if _LAZY.match(data, end):
        return _FULL, LAZY
    if end - at >= _FULL - 1:  # mold's stubs have an index, and no filling
        return _FULL, FULL
    if end < len(data) and not _FILLED.match(data, end):
        return 0, ""
    if end - at <= _SHORT and (place & 15 or _is_short(data, at, end)):
        return _SHORT, SHORT
    return (0, "") if place & 15 else (_FULL, FULL)


def _is_short(data: bytes, at: int, end: int) -> bool:
    """Return whether a stub is filled up to only 8 bytes."""
    following = data[at + _SHORT : at + _SHORT + 3]
    return (
        data[end : at + _SHORT] in (b"\x66\x90", b"\x90")
        or following[:2] in (b"\xff\x25", b"\xff\xa3")
        or following == b"\xf2\xff\x25"
    )


def told_got(data: bytes, calls: Sequence[int]) -> int | None:
    """Return the base address of distances, computed from lazy stubs of i386.

    Such a stub also has the offset of its relocation. `calls` are the slots of DT_JMPREL in
    order. Return None if there is no such stub.
    """
    votes: dict[int, int] = {}
    for match in _TOLD.finditer(data):
        distance = int.from_bytes(match[1] or match[4], "little")
        index, left = divmod(int.from_bytes(match[2] or match[3], "little"), _REL)
        if not left and index < len(calls):
            got = calls[index] - distance & _MASK_32
            votes[got] = votes.get(got, 0) + 1
    return max(votes, key=lambda got: votes[got]) if votes else None


def loaded_got(data: bytes, base: int) -> int | None:
    """Return the address that most functions of i386 code at `base` load into %ebx, or None."""
    votes: dict[int, int] = {}
    for match in _LOADED.finditer(data):
        got = base + match.start(1) + int.from_bytes(match[2], "little") & _MASK_32
        votes[got] = votes.get(got, 0) + 1
    return max(votes, key=lambda got: votes[got]) if votes else None


def fitting_got(data: bytes, slots: Container[int], bases: Sequence[int]) -> int:
    """Return the first of `bases` with which the largest number of stubs lead to slots."""
    if len(bases) < 2:
        return bases[0] if bases else 0
    distances = [
        int.from_bytes(match[3], "little")
        for match in _JUMP_32.finditer(data)
        if match[2] != _BY_ADDRESS and data[max(match.start() - 6, 0) :][:2] not in _FIRST
    ]

    def fitting(base: int) -> int:
        return sum(base + distance & _MASK_32 in slots for distance in distances)

    return max(bases, key=fitting)


# The stub at one address, in a file or in memory, on x86-64 and i386.
#
# The decoder of all stubs finds only code that is called. This module also recognises separate lazy
# halves and the first stub, which calls the loader.

_LONGEST = 32
_AROUND = 32  # bytes read before and behind, for stubs and their surroundings

# filling between functions: nops of every length, int3, zeros
_PADDING = re.compile(
    rb"(?:\x66|\x2e)*(?:\x90|\x0f\x1f(?:\0|\x40\0|\x44\0\0|\x80\0{4}|\x84\0{5}))|\xcc|\0"
    rb"|\x8d[\x74\xb4]\x26\0*|\x8d\xb6\0{4}|\x8d\x76\0",
    re.DOTALL,
)


def is_lazy(code: bytes) -> bool:
    """Return whether code leads into the loader's resolver, as the target of an unbound slot does.

    Such code is `push $index` or, with mold, the first stub itself: `push GOT[1]`. An endbr may
    stand before either.
    """
    rest = code[4:] if code[:3] == b"\xf3\x0f\x1e" else code
    if rest[:1] == b"\x68" or FIRST_STUB.match(code) is not None:
        return True
    return any(rest[at : at + 2] in (b"\xff\x35", b"\xff\xb3") for at in range(5))


def is_padding(code: bytes, at: int) -> bool:
    """Return whether the byte at `at` is filling; `code` begins behind a function."""
    place = 0
    while place <= at:
        match = _PADDING.match(code, place)
        if match is None:
            return False
        place = match.end()
    return True


class X86Stub(Record):
    """One stub at link-time address `vaddr`, with `size` bytes.

    `slot` is the vaddr of its slot and `symbol` the index of the slot's dynamic symbol, 0 for an
    IFUNC without a name. `slot` is 0 for the first stub, which calls the loader.
    """

    vaddr: int
    size: int
    slot: int
    symbol: int


class X86Stubs:
    """The stubs of one image; its relocations are read once."""

    __slots__ = ("_calls", "_got", "_image", "_places", "_sections", "_slots")

    def __init__(self, image: ElfReader, sections: Sections | None = None) -> None:
        """Read the slots; stubs may lie only in `sections`, or anywhere if that is None.

        Raises FormatError if relocations are cut.
        """
        self._image = image
        self._sections = sections
        self._got: int | None = None
        self._places = [
            (section.vaddr, section.vaddr + section.size)
            for section in ([] if sections is None else sections.all)
            if section.name.startswith((".plt", ".iplt"))
        ]
        self._calls: list[tuple[int, int]] = []
        self._slots: dict[int, int] = {}
        for table in reversed(tables(image)):
            rows = symbols_of(image, table)
            self._slots.update(rows)
            if table[3]:
                self._calls = rows

    def at(self, vaddr: int) -> X86Stub | None:
        """Return the stub that contains link-time address `vaddr`, None if there is none."""
        origin = next((start for start, end in self._places if start <= vaddr < end), 0)
        if self._places and not origin:
            return None
        low = max(vaddr - _AROUND, origin)
        code = self._code(low, 3 * _AROUND)
        if not code and low < vaddr:  # `vaddr` is at the start of a segment
            low = vaddr & -16
            code = self._code(low, 2 * _AROUND)
        for start, size, slot, _ in self._rows(low, code, origin):
            if start <= vaddr < start + size:
                return X86Stub(start, size, slot, self._slots[slot])
        return self._other(vaddr - (vaddr - origin) % 16, origin)

    def _rows(self, vaddr: int, code: bytes, origin: int) -> Iterator[Row]:
        if self._is_64:
            return stubs_64(code, vaddr, self._slots, origin, is_plt=False)
        return stubs_32(code, vaddr, self._slots, origin, self.got, is_plt=False)

    def _code(self, vaddr: int, size: int) -> bytes:
        try:
            return self._image.source.read(self._image.locate(vaddr), size)
        except FormatError:
            return b""

    def _other(self, vaddr: int, origin: int) -> X86Stub | None:
        """Return the lazy half, or the first stub, that begins at `vaddr`, or None."""
        code = self._code(vaddr, _LONGEST)
        match = LAZY_HALF.match(code)
        if match is not None:
            step = 1 if self._is_64 else self._image.encoding.rel.size
            index, left = divmod(int.from_bytes(match[1], "little"), step)
            if not left and index < len(self._calls):
                return X86Stub(vaddr, 16, *self._calls[index])
            return None
        if FIRST_STUB.match(code) is not None and self._follows(vaddr, origin):
            return X86Stub(vaddr, 16, 0, 0)
        return None

    def _follows(self, vaddr: int, origin: int) -> bool:
        """Return whether a stub with a slot follows the stub at `vaddr`, which has none."""
        for start in (vaddr + 16, vaddr + 32):
            code = self._code(start, 2 * _LONGEST)
            if FIRST_STUB.match(code) is not None:
                continue
            if LAZY_HALF.match(code) is not None or any(
                row[0] == start for row in self._rows(start, code, origin)
            ):
                return True
        return False

    @property
    def _is_64(self) -> bool:
        header = self._image.header
        return self._image.encoding.bits == 64 or (
            header is not None and header.machine == EM_X86_64  # x32
        )

    @property
    def got(self) -> int:
        """The link-time base address of position-independent code for i386, 0 if unknown.

        It is _GLOBAL_OFFSET_TABLE_, which is DT_PLTGOT, but with mold the beginning of .got. The
        stubs decide: with the right base, they lead to slots.
        """
        if self._got is None:
            told = self._image.dynamic.get(c.DT_PLTGOT) or 0
            if told and self._image.is_mapped and told >= self._image.load_bias:
                told -= self._image.load_bias
            listed = [] if self._sections is None else self._sections.all
            bases = [
                told,
                *(section.vaddr for section in listed if section.name in (".got", ".got.plt")),
            ]
            code = b"".join(self._code(start, end - start) for start, end in self._places)
            calls = [slot for slot, _ in self._calls]
            got = told_got(code, calls)
            if got is None:
                got = fitting_got(code, self._slots, list(dict.fromkeys(bases)))
            self._got = got
        return self._got


# The argument that an unbound slot passes to the lazy resolver on x86.
#
# The stub or its lazy half has it as a constant. glibc: sysdeps/{x86_64,i386}/dl-trampoline.S.


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    pushed = PUSHED.match(mapped.code(helper))
    if pushed is not None:
        return int.from_bytes(pushed[1], "little")
    moved = {
        int.from_bytes(match[1], "little")
        for stub in slot.stubs
        if (match := MOVED.match(mapped.code(stub.vaddr))) is not None
    }
    return moved.pop() if len(moved) == 1 else None


# Call sites in stubs of x86-64 and i386: the one instruction that jumps through the slot.

# [endbr] [mov $index, %r11d or %ecx] [bnd] jmp *disp(%rip), *addr or *disp(%ebx)
_JUMP = re.compile(
    rb"(?:\xf3\x0f\x1e[\xfa\xfb])?(?:\x41\xbb.{4}|\xb9.{4})?(?P<jump>\xf2?\xff[\x25\xa3])",
    re.DOTALL,
)


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub; a stub that jumps by a return must run unchanged."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.start("jump"), JUMP)


# Decode the stubs of x86-64 (with x32) and i386, by the forms above.

_PLACES = (".plt", ".iplt")


def decoder(arch: Arch) -> Decoder:
    """Return the decoder of stubs for x86-64, x32 or i386."""
    return Decoder(_find_32 if arch.number == EM_386 else _find_64, _PLACES)


def _find_64(code: Code, table: SlotTable) -> Iterable[FoundStub]:
    """Yield the stubs in a range of code."""
    is_plt = code.section is not None
    if is_plt:
        regular = regular_64(code.data, code.vaddr)
        if regular is not None:
            pairs, form = regular
            kind = PLT if form == LAZY else _kind(code.section) or PLT
            is_ifunc, new = table.slots.get, tuple.__new__
            return [
                new(FoundStub, (vaddr, SIZE, slot, IPLT if is_ifunc(slot) else kind))
                for vaddr, slot in pairs
            ]
    origin = code.vaddr if is_plt else 0
    rows = stubs_64(code.data, code.vaddr, table.slots, origin, is_plt=is_plt)
    return _named(rows, code.section, table)


def _find_32(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    if table.base is None:
        table.base = told_got(code.data, table.calls)
        if table.base is None and code.section is None:  # the code may contain functions
            table.base = loaded_got(code.data, code.vaddr)
    got = table.base
    if got is None:
        got = fitting_got(code.data, table.slots, table.bases)
    is_plt = code.section is not None
    origin = code.vaddr if is_plt else 0
    rows = stubs_32(code.data, code.vaddr, table.slots, origin, got, is_plt=is_plt)
    return _named(rows, code.section, table)


def _named(rows: Iterator[Row], section: str | None, table: SlotTable) -> Iterator[FoundStub]:
    """Yield stubs with the kinds of model/filemap.py, by their form and section."""
    is_ifunc, default = table.slots, _kind(section)
    for vaddr, size, slot, form in rows:
        if form == RETURN:
            kind = RETPOLINE
        elif is_ifunc.get(slot):
            kind = IPLT
        elif form == LAZY:
            kind = PLT
        else:
            kind = default or (PLT_GOT if form == SHORT else PLT_SEC)
        yield FoundStub(vaddr, size, slot, kind)


def _kind(section: str | None) -> str | None:
    """Return the kind of a section's stubs without a lazy half, None if it is not known."""
    if section is None:
        return None
    if section.startswith(".plt.got"):
        return PLT_GOT
    return PLT_SEC if section.startswith((".plt.sec", ".plt.bnd")) else PLT
