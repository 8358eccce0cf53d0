# SPDX-License-Identifier: Apache-2.0
"""Stubs and stub helpers of arm64, arm64e and arm64_32.

    adrp x16, slot@page; ldr x16, [x16, slot@off]; br x16       __stubs
    nop; ldr x16, slot; br x16                                  the same, when near
    adrp x17; add x17; ldr x16, [x17]; braa x16, x17            __auth_stubs
    adrp x1; ldr x1, [x1]; <one of these>                       __objc_stubs
    adrp x1; ldr x1, [x1]; b stub                               __objc_stubs, small
    ldr w16, 1f; b shared; 1: .long offset                      helper

The decoder follows the values that these few instructions give to registers, so that other
sequences with the same effect are recognised, too.
"""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.macho.code import MachoDecoder, StubHelper, StubWay

_M64 = 0xFFFFFFFFFFFFFFFF
_NOP = 0xD503201F
_LONGEST = 10  # instructions
_SELECTOR = 1  # x1: the second argument of objc_msgSend


def decoder(_bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    return MachoDecoder(stub, helper, 4)


def stub(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub, None if there is none."""
    values: dict[int, int] = {}  # register -> address in it
    loaded: dict[int, int] = {}  # register -> address it was loaded from
    for index in range(min(_LONGEST, (len(code) - at) // 4)):
        (word,) = unpack_from("<I", code, at + 4 * index)
        pc = vaddr + 4 * index
        low, mid = word & 31, word >> 5 & 31
        if word & 0x9F000000 in (0x90000000, 0x10000000):  # adrp, adr
            offset = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            offset -= (offset & 0x100000) << 1
            if word >> 31:
                values[low] = (pc & ~0xFFF) + (offset << 12) & _M64
            else:
                values[low] = pc + offset & _M64
        elif word & 0xFF800000 == 0x91000000 and mid in values:  # add, immediate
            value = word >> 10 & 0xFFF
            values[low] = values[mid] + (value << 12 if word >> 22 & 1 else value) & _M64
        elif word & 0xBFC00000 == 0xB9400000 and mid in values:  # ldr, 64 or 32 bits
            scale = 3 if word >> 30 & 1 else 2
            loaded[low] = values[mid] + ((word >> 10 & 0xFFF) << scale) & _M64
            values.pop(low, None)
        elif word & 0xBF000000 == 0x18000000:  # ldr, literal
            loaded[low] = pc + _branch(word, 19, 5) & _M64
            values.pop(low, None)
        elif word & 0xFFFFFC1F == 0xD61F0000 and mid in loaded:  # br
            return StubWay(4 * index + 4, loaded[mid], selector_at=loaded.get(_SELECTOR, 0))
        elif word & 0xFEFFF800 == 0xD61F0800 and mid in loaded:  # braa, brab, braaz, brabz
            selector = loaded.get(_SELECTOR, 0)
            return StubWay(4 * index + 4, loaded[mid], selector_at=selector, signed=True)
        elif word >> 26 == 0x05 and _SELECTOR in loaded:  # b
            target = pc + _branch(word, 26, 0) & _M64
            return StubWay(4 * index + 4, target=target, selector_at=loaded[_SELECTOR])
        elif word != _NOP:
            return None
    return None


def helper(code: bytes, at: int, vaddr: int) -> StubHelper | None:
    """Decode a stub helper; the code that all helpers share is not a helper."""
    if len(code) < at + 12:
        return None
    load, jump, offset = unpack_from("<III", code, at)
    # the literal lies behind the jump: ldr w16 loads from eight bytes ahead
    if load != 0x18000050 or jump >> 26 != 0x05:
        return None
    return StubHelper(vaddr, 12, offset, None, vaddr + 4 + _branch(jump, 26, 0) & _M64)


def _branch(word: int, bits: int, shift: int) -> int:
    """Return the signed offset, in bytes, in `bits` bits of `word`."""
    value = word >> shift & (1 << bits) - 1
    value -= (value & 1 << (bits - 1)) << 1
    return value << 2
