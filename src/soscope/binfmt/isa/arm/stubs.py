# SPDX-License-Identifier: Apache-2.0
"""Stubs on 32-bit ARM, as GNU ld, gold, LLD and mold write them, also for pure Thumb code.

ELF for the Arm Architecture, "PLT Sequences and Usage Models". A stub addresses its slot by the
distance from the program counter, either in pieces of 8 bits or as a number behind the code.
Thumb code that cannot switch to ARM while it jumps enters through `bx pc`, four bytes before.
Such a stub begins at its `bx pc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.header import Header
from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.model.arch import Arch

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
