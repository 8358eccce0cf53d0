# SPDX-License-Identifier: Apache-2.0
"""Stubs of ppc and ppc64; all share one helper, dyld_stub_binding_helper.

    lis r11, ha(slot); lwzu r12, lo(slot)(r11); mtctr r12; bctr             __symbol_stub1
    mflr r0; bcl 20, 31, 1f; 1: mflr r11; addis r11, r11, ha(slot-1b);
    mtlr r0; lwzu r12, lo(slot-1b)(r11); mtctr r12; bctr                    __picsymbolstub1

Older stubs use lwz and add the rest to r11 afterwards (__symbol_stub, __picsymbol_stub). ppc64
uses ldu. The helper gets the address of the slot in r11.
"""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.macho.code import MachoDecoder, StubWay

_LONGEST = 10  # instructions
_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF
_BCTR = 0x4E800420


def decoder(bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    return MachoDecoder(stub64 if bits == 64 else stub32, None, 4)


def stub32(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub of ppc, None if there is none."""
    return _follow(code, at, vaddr, _M32)


def stub64(code: bytes, at: int, vaddr: int) -> StubWay | None:
    """Decode a stub of ppc64, None if there is none."""
    return _follow(code, at, vaddr, _M64)


def _follow(code: bytes, at: int, vaddr: int, mask: int) -> StubWay | None:
    values: dict[int, int] = {0: 0}  # in addis, register 0 means the number 0
    link = slot = 0
    counter = False
    for index in range(min(_LONGEST, (len(code) - at) // 4)):
        (word,) = unpack_from(">I", code, at + 4 * index)
        top = word >> 26
        target, base, low = word >> 21 & 31, word >> 16 & 31, word & 0xFFFF
        low -= (low & 0x8000) << 1
        if word == 0x429F0005:  # bcl 20, 31, next
            link = vaddr + 4 * index + 4
        elif word & 0xFC1FFFFF == 0x7C0802A6:  # mflr
            if link:
                values[target] = link
        elif word & 0xFC1FFFFF == 0x7C0803A6:  # mtlr
            pass  # restores the link register, changes no value here
        elif top in (14, 15) and base in values:  # addi, addis
            values[target] = values[base] + (low << 16 if top == 15 else low) & _M64
        elif top in (32, 33) and base in values:  # lwz, lwzu
            slot = values[base] + low
        elif top == 58 and word & 3 in (0, 1) and base in values:  # ld, ldu
            slot = values[base] + (low & ~3)
        elif word & 0xFC1FFFFF == 0x7C0903A6:  # mtctr
            counter = True
        elif word == _BCTR and counter and slot:
            return StubWay(4 * index + 4, slot & mask, relative=bool(link))
        else:
            return None
    return None
