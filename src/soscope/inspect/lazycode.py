# SPDX-License-Identifier: Apache-2.0
"""What the code behind an unbound slot gives the lazy resolver, by its bytes.

The stub or its lazy half has the argument as a constant (x86, s390x, MIPS, ELFv1), or PLT0 and
the resolver work it out from the place of the slot (aarch64, arm), of the stub (RISC-V) or of the
branch that the slot leads to (PowerPC). Where the code has the index of the relocation and the
trampoline makes it an offset (ELFv1, the PLT of MIPS), it is the offset.
glibc: sysdeps/<arch>/dl-trampoline.S.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.ppc64glink import DT_PPC64_GLINK, FIRST, is_elfv2
from soscope.binfmt.stubs import mips, mips16
from soscope.errors import FormatError
from soscope.model.filemap import Slot

_CODE = 32
# [endbr] push $argument
_PUSH = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?\x68(.{4})", re.DOTALL)
# mold: [endbr] mov $argument, %r11d or %ecx, in the stub
_MOVED = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?(?:\x41\xbb|\xb9)(.{4})", re.DOTALL)
# basr %r1, %r0; lgf %r1, 12(%r1); jg PLT0; .long argument
_BEHIND = re.compile(rb"\x0d\x10\xe3\x10\x10\x0c\0\x14\xc0\xf4.{4}(.{4})", re.DOTALL)
# mold: larl %r1, slot; lg %r1, 0(%r1); lgfi %r0, argument; br %r1
_LOADED = re.compile(rb"\xc0\x10.{4}\xe3\x10\x10\0\0\x04\xc0\x01(.{4})\x07\xf1", re.DOTALL)
_FROM_SLOT = {"aarch64": 3, "arm": 2}  # bytes of a relocation for each byte of a slot
_RESERVED = 3  # words of .got.plt before the first slot
_RESERVED_MIPS = 2
_FROM_STUB = {"riscv64": (3, 2), "riscv32": (3, 4)}  # … for each byte of a stub
_FIRST = 32  # bytes of PLT0
_GIVEN = re.compile(rb"\x38\0(..)[\x48-\x4b]", re.DOTALL)  # ELFv1: li %r0, index; b
_ENTRY = 12  # bytes of a relocation of 32-bit PowerPC, for each branch of 4
_ENTRY_64 = 24  # … and of a 64-bit one


def argument_of(found: ElfMap, slot: Slot) -> int | None:
    """Return what the resolver is given at the first call through a lazy slot.

    None where the code has no shape that is known here, or the resolver finds it otherwise.
    """
    if slot.helper is None:
        return None
    if found.arch in ("x86-64", "i386"):
        pushed = _PUSH.match(_read(found, slot.helper))
        if pushed is not None:
            return int.from_bytes(pushed[1], "little")
        moved = {
            int.from_bytes(match[1], "little")
            for stub in slot.stubs
            if (match := _MOVED.match(_read(found, stub.vaddr))) is not None
        }
        return moved.pop() if len(moved) == 1 else None
    if found.arch == "s390x":
        behind = _BEHIND.match(_read(found, slot.helper))
        if behind is None and slot.stubs:
            behind = _LOADED.match(_read(found, slot.stubs[0].vaddr))
        return None if behind is None else int.from_bytes(behind[1], "big")
    if found.arch in _FROM_STUB and slot.stubs:
        times, by = _FROM_STUB[found.arch]
        return (slot.stubs[0].vaddr - slot.helper - _FIRST) * times // by
    if found.arch in ("mips", "mips64"):
        return _on_mips(found, slot, slot.helper)
    if found.arch in ("ppc", "ppc64", "ppc64le"):
        return _on_powerpc(found, slot.helper)
    got = found.image.dynamic.get(c.DT_PLTGOT)
    if found.arch not in _FROM_SLOT or got is None:
        return None
    return (slot.vaddr - got - _RESERVED * (found.bits // 8)) * _FROM_SLOT[found.arch]


def _on_mips(found: ElfMap, slot: Slot, helper: int) -> int | None:
    if slot.kind == "DT_MIPS_GOTSYM":
        order = found.image.encoding.order
        if helper & 1:  # microMIPS
            return mips16.index_of(_read(found, helper - 1), order)
        return mips.index_of(_read(found, helper), order)
    got = found.image.dynamic.get(mips.DT_MIPS_PLTGOT)
    size = found.bits // 8
    entry = 2 * size  # bytes of a relocation without an addend
    return None if got is None else ((slot.vaddr - got) // size - _RESERVED_MIPS) * entry


def _on_powerpc(found: ElfMap, helper: int) -> int | None:
    if found.arch == "ppc":
        first = next((one.helper for one in found.slots if one.helper), helper)
        return (helper - first) // 4 * _ENTRY
    if is_elfv2(found.image):
        glink = found.image.dynamic.get(DT_PPC64_GLINK)
        return None if glink is None else (helper - glink - FIRST) // 4 * _ENTRY_64
    given = _GIVEN.match(_read(found, helper))
    return None if given is None else int.from_bytes(given[1], "big") * _ENTRY_64


def _read(found: ElfMap, vaddr: int) -> bytes:
    try:
        return found.image.source.read(found.image.locate(vaddr), _CODE)
    except FormatError:
        return b""
