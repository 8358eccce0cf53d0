# SPDX-License-Identifier: Apache-2.0
"""Stubs and stub helpers of x86_64 and i386, as Apple's linkers, lld and zig write them.

The linkers write these sequences:

    x86_64  jmp *slot(%rip)                                     __stubs, __symbol_stub1
            mov selector(%rip), %rsi; jmp *slot(%rip)           __objc_stubs
            push $offset; jmp shared                            helper
            lea slot(%rip), %r11; jmp shared                    helper before LC_DYLD_INFO
            lea cache(%rip), %r11; push %r11; jmp *binder(%rip) code shared by the helpers
    i386    jmp *slot [; push $slot; jmp shared]                __stubs, __symbol_stub
            call 1f; 1: pop %eax; mov slot-1b(%eax), %edx; jmp *%edx    __picsymbol_stub
              [; lea slot-1b(%eax), %eax; push %eax; jmp shared]
            push $offset or $slot; jmp shared                   helper
            push $cache; jmp *binder                            code shared by the helpers
            hlt or jmp, five bytes                              __jump_table
"""

from __future__ import annotations

from struct import unpack_from

from soscope.binfmt.macho.code import MachoDecoder, StubHelper, StubWay

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF


def decoder(bits: int) -> MachoDecoder:
    """Return the decoder of stubs and stub helpers."""
    if bits == 64:
        return MachoDecoder(stub64, helper64, 1)
    return MachoDecoder(stub32, helper32, 1)


def stub64(code: bytes, at: int, vaddr: int) -> StubWay | None:
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


def helper64(code: bytes, at: int, vaddr: int) -> StubHelper | None:
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


def stub32(code: bytes, at: int, vaddr: int) -> StubWay | None:
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


def helper32(code: bytes, at: int, vaddr: int) -> StubHelper | None:
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
