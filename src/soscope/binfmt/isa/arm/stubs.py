# SPDX-License-Identifier: Apache-2.0
"""Stubs on 32-bit ARM in ELF and Mach-O files: their slots and their lazy resolution."""

from __future__ import annotations

import re
from struct import unpack_from

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.reader import Encoding, Header
from soscope.binfmt.macho.stubs import MachoDecoder, StubHelper, StubWay
from soscope.binfmt.stubs.finder import Code, Decoder, FoundStub, SlotTable
from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub
from soscope.model.arch import Arch
from soscope.model.filemap import FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The argument that an unbound slot passes to the lazy resolver on 32-bit ARM.
#
# PLT0 and the resolver compute it from the address of the slot. glibc: sysdeps/arm/dl-trampoline.S.

_TIMES = 2  # bytes of relocation per byte of slot
_RESERVED = 3  # words of .got.plt before the first slot


def argument_of(mapped: ElfMap, slot: FileSlot, _helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call.

    Return None if there is no DT_PLTGOT, and so no way to compute it.
    """
    got = mapped.image.dynamic.get(c.DT_PLTGOT)
    if got is None:
        return None
    return (slot.vaddr - got - _RESERVED * (mapped.bits // 8)) * _TIMES


# Stubs and stub helpers of 32-bit arm, all in ARM (not Thumb) instructions.
#
# ldr ip, 1f; 0: add ip, pc, ip; ldr pc, [ip]; 1: .long slot-(0b+8)   __picsymbolstub4
# ldr ip, 1f; ldr pc, [ip]; 1: .long slot                             __symbol_stub4
# movw ip; movt ip; add ip, pc, ip; ldr pc, [ip]                      lld
# ldr ip, 1f; b shared; 1: .long offset                               helper

_M32 = 0xFFFFFFFF
_ADD_IP_PC = 0xE08FC00C  # add ip, pc, ip
_LDR_PC_IP = 0xE59CF000  # ldr pc, [ip]


def macho_decoder(_bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    return MachoDecoder(macho_stub, macho_helper, 4)


def macho_stub(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub, None if there is none."""
    value: int | None = None
    relative = False
    for index in range(min(4, (len(code) - at) // 4)):
        (word,) = unpack_from("<I", code, at + 4 * index)
        pc = vaddr + 4 * index + 8
        half = word >> 4 & 0xF000 | word & 0xFFF
        if word & 0xFFFFF000 == 0xE59FC000:  # ldr ip, [pc, #n]
            place = at + 4 * index + 8 + (word & 0xFFF)
            if place + 4 > len(code):
                return None
            (value,) = unpack_from("<I", code, place)
        elif word & 0xFFF0F000 == 0xE300C000:  # movw ip
            value = half
        elif word & 0xFFF0F000 == 0xE340C000 and value is not None:  # movt ip
            value = value & 0xFFFF | half << 16
        elif word == _ADD_IP_PC and value is not None:
            value = value + pc & _M32
            relative = True
        elif word == _LDR_PC_IP and value is not None:
            return StubWay(4 * index + 4, value, relative=relative)
        else:
            return None
    return None


def macho_helper(code: bytes, at: int, vaddr: int) -> StubHelper | None:
    """Decode a stub helper; the code that all helpers share is not a helper."""
    if len(code) < at + 12:
        return None
    load, jump, offset = unpack_from("<III", code, at)
    if load != 0xE59FC000 or jump >> 24 != 0xEA:
        return None
    distance = jump & 0xFFFFFF
    distance -= (distance & 0x800000) << 1
    return StubHelper(vaddr, 12, offset, None, vaddr + 12 + 4 * distance & _M32)


# Call sites in stubs of arm: the load of the slot into pc, when ip has the slot's address.

# ldr pc, [ip, #near]! or ldr pc, [ip]; or Thumb's ldr.w pc, [ip], at any even address
_JUMP = re.compile(
    rb"(?:..)*?(?P<jump>.[\xf0-\xff]\xbc\xe5|\0\xf0\x9c\xe5|\xdc\xf8\0\xf0)", re.DOTALL
)


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub; a stub for Thumb has two entry points."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.start("jump"), JUMP)


# Stubs on 32-bit ARM, as GNU ld, gold, LLD and mold write them, also for pure Thumb code.
#
# ELF for the Arm Architecture, "PLT Sequences and Usage Models". A stub addresses its slot by the
# distance from the program counter, either in pieces of 8 bits or as a number behind the code.
# Thumb code that cannot switch to ARM while it jumps enters through `bx pc`, four bytes before.
# Such a stub begins at its `bx pc`.

_PLACES = (".plt", ".iplt")

_THUMB = rb"((?:\x78\x47(?:\xc0\x46|\xfd\xe7))?)"  # bx pc; nop or b .-2
# add ip, pc, #a; add ip, ip, #b; [add ip, ip, #c]; ldr pc, [ip, #d]!
_SUM = re.compile(
    rb"(?=("
    + _THUMB
    + rb"(.[\xc0-\xcf]\x8f\xe2(?:.[\xc0-\xcf]\x8c\xe2){1,2}.[\xf0-\xff]\xbc\xe5)))",
    re.DOTALL,
)
# ldr ip, [pc, #4]; add ip, ip, pc; ldr pc, [ip]; .word distance
_WORD = re.compile(
    rb"(?=(" + _THUMB + rb"\x04\xc0\x9f\xe5(?:\x0f\xc0\x8c|\x0c\xc0\x8f)\xe0\0\xf0\x9c\xe5(.{4})))",
    re.DOTALL,
)
# movw ip, #low; movt ip, #high; add ip, pc; ldr.w pc, [ip]; b .-4
_THUMB_2 = re.compile(
    rb"(?=([\x40-\x4f][\xf2\xf6].[\x0c\x1c\x2c\x3c\x4c\x5c\x6c\x7c]"
    rb"[\xc0-\xcf][\xf2\xf6].[\x0c\x1c\x2c\x3c\x4c\x5c\x6c\x7c]"
    rb"\xfc\x44\xdc\xf8\0\xf0(?:[\xfc\xfd]\xe7)?))",
    re.DOTALL,
)
_FILLING = b"\xd4\xd4\xd4\xd4"  # filling of LLD
_MASK = 0xFFFF_FFFF
_EF_ARM_BE8 = 0x0080_0000  # e_flags: big-endian data, but little-endian code


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES, missing=_missing)


def _missing(header: Header) -> str:
    if header.encoding.order == ">" and not header.flags & _EF_ARM_BE8:
        return "no decoder of stubs for ARM code that is stored big end first (BE32)"
    return ""


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    coding = table.image.encoding
    slots, is_plt = table.slots, code.section is not None
    last = -1
    for at, size, slot in sorted(_all(code, coding)):
        if at < last:  # the stub just found, without its `bx pc`
            continue
        if slot in slots or is_plt:
            last = at + size
            yield FoundStub(code.vaddr + at, size, slot, table.kind(code, slot))


def _all(code: Code, coding: Encoding) -> Iterator[tuple[int, int, int]]:
    """Yield (position, size, slot) of everything that looks like a stub."""
    data, base = code.data, code.vaddr
    for match in _SUM.finditer(data):
        place = match.start(3)
        if not base + place & 3:
            words = [
                int.from_bytes(data[at : at + 4], "little") for at in range(place, match.end(3), 4)
            ]
            slot = base + place + 8 + sum(map(_rotated, words[:-1])) + (words[-1] & 0xFFF)
            end = match.end(1)
            end += 4 * (data[end : end + 4] == _FILLING)
            yield match.start(), end - match.start(), slot & _MASK
    for match in _WORD.finditer(data):
        place = match.end(2)
        if not base + place & 3:
            (distance,) = coding.u32.unpack(match[3])
            yield match.start(), len(match[1]), base + place + 12 + distance & _MASK
    for match in _THUMB_2.finditer(data):
        place = match.start()
        if not base + place & 1:
            distance = _half(data, place) | _half(data, place + 4) << 16
            yield place, len(match[1]), base + place + 12 + distance & _MASK


def _rotated(instruction: int) -> int:
    """Return the operand of an `add`: 8 bits, rotated right."""
    turn = (instruction >> 8 & 15) * 2
    value = instruction & 0xFF
    return (value >> turn | value << 32 - turn) & _MASK


def _half(data: bytes, at: int) -> int:
    """Return the 16 bits in a movw or movt of Thumb."""
    first = int.from_bytes(data[at : at + 2], "little")
    second = int.from_bytes(data[at + 2 : at + 4], "little")
    return (first & 15) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
