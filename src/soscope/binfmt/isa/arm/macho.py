# SPDX-License-Identifier: Apache-2.0
"""Stubs and stub helpers of 32-bit arm, all in ARM (not Thumb) instructions.

ldr ip, 1f; 0: add ip, pc, ip; ldr pc, [ip]; 1: .long slot-(0b+8)   __picsymbolstub4
ldr ip, 1f; ldr pc, [ip]; 1: .long slot                             __symbol_stub4
movw ip; movt ip; add ip, pc, ip; ldr pc, [ip]                      lld
ldr ip, 1f; b shared; 1: .long offset                               helper
"""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.macho.code import MachoDecoder, StubHelper, StubWay

_M32 = 0xFFFFFFFF
_ADD_IP_PC = 0xE08FC00C  # add ip, pc, ip
_LDR_PC_IP = 0xE59CF000  # ldr pc, [ip]


def decoder(_bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    return MachoDecoder(stub, helper, 4)


def stub(code: bytes, at: int, vaddr: int) -> StubWay | None:
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


def helper(code: bytes, at: int, vaddr: int) -> StubHelper | None:
    """Decode a stub helper; the code that all helpers share is not a helper."""
    if len(code) < at + 12:
        return None
    load, jump, offset = unpack_from("<III", code, at)
    if load != 0xE59FC000 or jump >> 24 != 0xEA:
        return None
    distance = jump & 0xFFFFFF
    distance -= (distance & 0x800000) << 1
    return StubHelper(vaddr, 12, offset, None, vaddr + 12 + 4 * distance & _M32)
