# SPDX-License-Identifier: Apache-2.0
"""The code that Mach-O linkers write by themselves: stubs, helpers and their headers.

Every function returns the bytes for given addresses. They are written from the instruction
sets' manuals, and know nothing of the decoders that they test.
"""

from __future__ import annotations

import struct
from typing import NamedTuple


class Arch(NamedTuple):
    """An architecture as Mach-O names it; `page` is how segments are aligned."""

    name: str
    cpu: int
    subtype: int
    order: str
    bits: int
    page: int

    @property
    def word(self) -> int:
        """Bytes of an address."""
        return self.bits // 8

    def pack(self, codes: str, *values: int) -> bytes:
        """Pack integers in this byte order; `P` is an address, taken modulo its size."""
        masked = [
            value & (1 << (self.bits if code == "P" else 32)) - 1 if code in "PI" else value
            for code, value in zip(codes, values, strict=True)
        ]
        wide = codes.replace("P", "Q" if self.bits == 64 else "I")
        return struct.pack(self.order + wide, *masked)


_ALL = (
    Arch("ppc", 18, 0, ">", 32, 0x1000),
    Arch("ppc64", 18 | 1 << 24, 0, ">", 64, 0x1000),
    Arch("i386", 7, 3, "<", 32, 0x1000),
    Arch("x86_64", 7 | 1 << 24, 3, "<", 64, 0x1000),
    Arch("arm64", 12 | 1 << 24, 0, "<", 64, 0x4000),
    Arch("armv7", 12, 9, "<", 32, 0x1000),
    Arch("arm64_32", 12 | 1 << 25, 1, "<", 32, 0x4000),
    Arch("arm64e", 12 | 1 << 24, 2 | 1 << 31, "<", 64, 0x4000),
)
ARCHS = {one.name: one for one in _ALL}

# (architecture, style) -> bytes of one stub
SIZES = {
    ("ppc", "stub1"): 16,
    ("ppc", "pic"): 32,
    ("ppc64", "stub1"): 16,
    ("ppc64", "pic"): 32,
    ("i386", "stub"): 6,
    ("i386", "stub16"): 16,
    ("i386", "pic"): 26,
    ("i386", "jump"): 5,
    ("x86_64", "stub"): 6,
    ("arm64", "stub"): 12,
    ("arm64", "literal"): 12,
    ("armv7", "stub"): 16,
    ("arm64_32", "stub"): 12,
    ("arm64e", "auth"): 16,
    ("arm64e", "stub"): 12,
}
HELPERS = {"i386": 10, "x86_64": 10, "armv7": 12, "arm64": 12, "arm64_32": 12, "arm64e": 12}
_HEADERS = {
    "ppc": 32,
    "ppc64": 32,
    "i386": 12,
    "x86_64": 16,
    "armv7": 36,
    "arm64": 24,
    "arm64_32": 24,
    "arm64e": 24,
}
_PPC_NOP = 0x60000000


def _words(order: str, *words: int) -> bytes:
    return struct.pack(f"{order}{len(words)}I", *(word & 0xFFFFFFFF for word in words))


def _halves(value: int) -> tuple[int, int]:
    """Return what addis and a signed 16-bit displacement add up to `value`."""
    return value + 0x8000 >> 16 & 0xFFFF, value & 0xFFFF


def _adrp(register: int, pc: int, target: int) -> int:
    pages = (target >> 12) - (pc >> 12)
    return 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register


def _ldr(register: int, base: int, target: int, arch: str = "arm64") -> int:
    if arch == "arm64_32":
        return 0xB9400000 | (target & 0xFFF) >> 2 << 10 | base << 5 | register
    return 0xF9400000 | (target & 0xFFF) >> 3 << 10 | base << 5 | register


def _add(register: int, base: int, target: int) -> int:
    return 0x91000000 | (target & 0xFFF) << 10 | base << 5 | register


def stub(arch: str, style: str, at: int, slot: int, binder: int = 0) -> bytes:
    """Return one stub at `at` that goes through `slot`.

    `binder` is dyld_stub_binding_helper, for styles that contain their lazy half.
    """
    if arch in {"ppc", "ppc64"}:
        load = 0x858B0000 if arch == "ppc" else 0xE98B0001  # lwzu, ldu r12,low(r11)
        if style == "stub1":
            high, low = _halves(slot)
            return _words(">", 0x3D600000 | high, load | low, 0x7D8903A6, 0x4E800420)
        high, low = _halves(slot - (at + 8))
        pc = (0x7C0802A6, 0x429F0005, 0x7D6802A6, 0x3D6B0000 | high, 0x7C0803A6)
        return _words(">", *pc, load | low, 0x7D8903A6, 0x4E800420)
    if arch == "i386":
        if style == "jump":
            return b"\xf4" * 5
        if style == "pic":  # call 1f; 1: pop %eax; mov slot-1b(%eax),%edx; jmp *%edx
            pic = b"\xe8\0\0\0\0\x58\x8b\x90" + _words("<", slot - at - 5) + b"\xff\xe2"
            half = b"\x8d\x80" + _words("<", slot - at - 5) + b"\x50\xe9"
            return pic + half + _words("<", binder - at - 26)
        jump = b"\xff\x25" + _words("<", slot)
        if style == "stub":
            return jump
        return jump + b"\x68" + _words("<", slot) + b"\xe9" + _words("<", binder - at - 16)
    if arch == "x86_64":
        return b"\xff\x25" + _words("<", slot - at - 6)
    if style == "literal":  # what the linker makes of a slot within a megabyte
        load = 0x58000000 | (slot - at - 4 >> 2 & 0x7FFFF) << 5 | 16
        return _words("<", 0xD503201F, load, 0xD61F0200)
    if style == "auth":
        head = (_adrp(17, at, slot), _add(17, 17, slot))
        return _words("<", *head, 0xF9400230, 0xD71F0A11)  # ldr x16,[x17]; braa x16,x17
    if arch == "armv7":  # ldr ip,1f; 0: add ip,pc,ip; ldr pc,[ip]; 1: slot-(0b+8)
        return _words("<", 0xE59FC004, 0xE08FC00C, 0xE59CF000, slot - at - 12)
    return _words("<", _adrp(16, at, slot), _ldr(16, 16, slot, arch), 0xD61F0200)


def helper(arch: str, at: int, header: int, argument: int, slot: int, *, classic: bool) -> bytes:
    """Return a slot's lazy half: it goes to `header` with `argument`, or `slot` if classic."""
    if arch == "x86_64" and classic:  # lea slot(%rip),%r11; jmp header
        lea = b"\x4c\x8d\x1d" + _words("<", slot - at - 7)
        return lea + b"\xe9" + _words("<", header - at - 12)
    if arch in {"i386", "x86_64"}:
        pushed = slot if classic else argument
        return b"\x68" + _words("<", pushed) + b"\xe9" + _words("<", header - at - 10)
    if arch == "armv7":  # ldr ip,1f; b header; 1: argument
        return _words("<", 0xE59FC000, 0xEA000000 | header - at - 12 >> 2 & 0xFFFFFF, argument)
    branch = 0x14000000 | header - at - 4 >> 2 & 0x3FFFFFF
    return _words("<", 0x18000050, branch, argument)  # ldr w16,2f; b header; 2: argument


def helper_size(arch: str, *, classic: bool) -> int:
    """Return the bytes of one lazy half."""
    return 12 if arch == "x86_64" and classic else HELPERS.get(arch, 0)


def header_size(arch: str, *, classic: bool) -> int:
    """Return the bytes of what all lazy halves go on to."""
    return _HEADERS[arch] + 2 * (arch == "x86_64" and classic)


def header(arch: str, at: int, cache: int, binder: int, *, classic: bool) -> bytes:
    """Return what all lazy halves go on to: it gives `cache` to the function in slot `binder`."""
    if arch == "x86_64" and classic:  # the slot's address is in %r11, and is needed first
        return b"\x41\x53" + header(arch, at + 2, cache, binder, classic=False)
    if arch in {"ppc", "ppc64"}:
        load = 0x818C0000 if arch == "ppc" else 0xE98C0000  # lwz, ld r12,low(r12)
        high, low = _halves(binder)
        code = (0x3D800000 | high, load | low, 0x7D8903A6)
        high, low = _halves(cache)  # lis, addi r12; bctr
        return _words(">", *code, 0x3D800000 | high, 0x398C0000 | low, 0x4E800420, *2 * (_PPC_NOP,))
    if arch == "i386":
        return b"\x68" + _words("<", cache) + b"\xff\x25" + _words("<", binder) + b"\x90"
    if arch == "x86_64":
        lea = b"\x4c\x8d\x1d" + _words("<", cache - at - 7)
        return lea + b"\x41\x53\xff\x25" + _words("<", binder - at - 15) + b"\x90"
    if arch == "armv7":  # both are pushed: str ip,[sp,#-4]!
        push = (0xE52DC004, 0xE59FC010, 0xE08FC00C, 0xE52DC004, 0xE59FC008, 0xE08FC00C)
        return _words("<", *push, 0xE59CF000, cache - at - 16, binder - at - 28)
    head = (_adrp(17, at, cache), _add(17, 17, cache), 0xA9BF47F0)  # stp x16,x17,[sp,#-16]!
    tail = (_adrp(16, at + 12, binder), _ldr(16, 16, binder, arch), 0xD61F0200)
    return _words("<", *head, *tail)


def objc_stub(arch: str, style: str, at: int, selref: int, target: int) -> bytes:
    """Return a stub that loads the selector in `selref` and calls objc_msgSend.

    `target` is its slot, or with "small" a stub of it.
    """
    if arch == "x86_64":
        load = b"\x48\x8b\x35" + _words("<", selref - at - 7)
        return load + b"\xff\x25" + _words("<", target - at - 13)
    head = (_adrp(1, at, selref), _ldr(1, 1, selref))
    if style == "small":
        return _words("<", *head, 0x14000000 | target - at - 8 >> 2 & 0x3FFFFFF)
    if arch == "arm64e":
        signed = (_adrp(17, at + 8, target), _add(17, 17, target), 0xF9400230, 0xD71F0A11)
        return _words("<", *head, *signed, 0xD4200020, 0xD4200020)
    tail = (_adrp(16, at + 8, target), _ldr(16, 16, target), 0xD61F0200)
    return _words("<", *head, *tail, 0xD4200020, 0xD4200020, 0xD4200020)


def objc_size(arch: str, style: str) -> int:
    """Return the bytes of one such stub."""
    return 13 if arch == "x86_64" else 12 if style == "small" else 32
