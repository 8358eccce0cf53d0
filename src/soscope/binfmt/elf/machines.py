# SPDX-License-Identifier: Apache-2.0
"""What differs from one processor to another in how slots are filled.

The numbers of relocation types are those of each processor's psABI supplement, under the names
that it gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from soscope.binfmt.elf import constants as c

EM_MIPS = c.EM_MIPS
EM_PPC = 20
EM_PPC64 = 21
EM_S390 = c.EM_S390
EM_ARM = 40
EM_RISCV = 243

EF_ARM_BE8 = 0x0080_0000  # e_flags: code is stored little end first, all the same
EF_PPC64_ABI = 3  # e_flags: 2 is ELFv2, 0 and 1 are ELFv1

# What _dl_fixup is given for a lazy slot, by glibc's sysdeps/*/dl-trampoline.S. x86-64's stubs push
# the index; i386's and s390x's have the offset in them. On aarch64 and arm the stub leaves the
# slot's address behind, on RISC-V its own; PLT0 and the trampoline turn the distance from the
# first one's into the offset of the relocation (24 bytes each; 12 on RISC-V of 32 bits, 8 on arm).
# 64-bit PowerPC's branches and the PLT of MIPS have the index, and the trampoline makes it the
# offset. For words of the GOT of MIPS it is another function's: it is given the symbol's index.
BY_INDEX = 1  # in DT_JMPREL
BY_OFFSET = 2  # in DT_JMPREL, in bytes

# In place of a relocation's type, which is never as large: slots that no relocation fills.
GOT_WORD = 1 << 32  # filled when the image is loaded
STUBBED_GOT_WORD = GOT_WORD + 1  # leads to a stub until the first call


class Machine(NamedTuple):
    """One processor.

    `prefix` stands before the names in `types`, which has the types that fill a slot: number ->
    name. `jump_slot`, `irelative` and `tlsdesc` are those of them that are bound in a way of
    their own; 0 where there is none. `words` are types that fill a slot only where it lies in the
    GOT: any other pointer is filled by the same one. `argument` says what the lazy resolver is
    given. `implied` names the kinds of slots that no relocation fills; `stubbed` is the one of them
    that may be lazy. `variant` is the dynamic tag that says that there are functions with a calling
    convention of their own, and the bit of st_other that they have: no resolver knows which
    registers to keep for them, so the loader binds them at once.
    """

    arch: str
    prefix: str
    types: dict[int, str]
    jump_slot: int
    irelative: frozenset[int]
    tlsdesc: int
    words: frozenset[int] = frozenset()
    argument: int = BY_INDEX
    variant: tuple[int, int] | None = None
    implied: Mapping[int, str] = {}
    stubbed: int = 0


_MACHINES = {
    c.EM_X86_64: Machine(
        "x86-64",
        "R_X86_64_",
        {6: "GLOB_DAT", 7: "JUMP_SLOT", 36: "TLSDESC", 37: "IRELATIVE"},
        7,
        frozenset((37,)),
        36,
    ),
    c.EM_386: Machine(
        "i386",
        "R_386_",
        {6: "GLOB_DAT", 7: "JUMP_SLOT", 41: "TLS_DESC", 42: "IRELATIVE"},
        7,
        frozenset((42,)),
        41,
        argument=BY_OFFSET,
    ),
    c.EM_AARCH64: Machine(
        "aarch64",
        "R_AARCH64_",
        {1025: "GLOB_DAT", 1026: "JUMP_SLOT", 1031: "TLSDESC", 1032: "IRELATIVE"},
        1026,
        frozenset((1032,)),
        1031,
        argument=BY_OFFSET,
        variant=(0x7000_0005, 0x80),  # DT_AARCH64_VARIANT_PCS
    ),
    EM_ARM: Machine(
        "arm",
        "R_ARM_",
        {13: "TLS_DESC", 21: "GLOB_DAT", 22: "JUMP_SLOT", 160: "IRELATIVE"},
        22,
        frozenset((160,)),
        13,
        argument=BY_OFFSET,
    ),
    EM_RISCV: Machine(
        "riscv64",
        "R_RISCV_",
        {1: "32", 2: "64", 5: "JUMP_SLOT", 12: "TLSDESC", 58: "IRELATIVE"},
        5,
        frozenset((58,)),
        12,
        words=frozenset((1, 2)),
        argument=BY_OFFSET,
        variant=(0x7000_0001, 0x80),  # DT_RISCV_VARIANT_CC
    ),
    EM_S390: Machine(
        "s390x",
        "R_390_",
        {10: "GLOB_DAT", 11: "JMP_SLOT", 61: "IRELATIVE"},
        11,
        frozenset((61,)),
        0,
        argument=BY_OFFSET,
    ),
    EM_MIPS: Machine(
        "mips",
        "R_MIPS_",
        {3: "REL32", 51: "GLOB_DAT", 127: "JUMP_SLOT"},
        127,
        frozenset(),
        0,
        words=frozenset((3,)),
        argument=BY_OFFSET,
        implied={GOT_WORD: "DT_MIPS_GOTSYM", STUBBED_GOT_WORD: "DT_MIPS_GOTSYM"},
        stubbed=STUBBED_GOT_WORD,
    ),
    EM_PPC: Machine(
        "ppc",
        "R_PPC_",
        {1: "ADDR32", 20: "GLOB_DAT", 21: "JMP_SLOT", 248: "IRELATIVE"},
        21,
        frozenset((248,)),
        0,
        words=frozenset((1,)),
        argument=BY_OFFSET,
    ),
    EM_PPC64: Machine(
        "ppc64",
        "R_PPC64_",
        {20: "GLOB_DAT", 21: "JMP_SLOT", 38: "ADDR64", 247: "JMP_IREL", 248: "IRELATIVE"},
        21,
        frozenset((247, 248)),
        0,
        words=frozenset((38,)),
        argument=BY_OFFSET,
    ),
}

# aarch64 with addresses of 32 bits, ILP32, has relocations of its own.
_ILP32 = _MACHINES[c.EM_AARCH64]._replace(
    prefix="R_AARCH64_P32_",
    types={181: "GLOB_DAT", 182: "JUMP_SLOT", 187: "TLSDESC", 188: "IRELATIVE"},
    jump_slot=182,
    irelative=frozenset((188,)),
    tlsdesc=187,
)


def machine_of(number: int, bits: int) -> Machine | None:
    """Return what is known of the processor e_machine `number`, None where nothing is."""
    return _ILP32 if number == c.EM_AARCH64 and bits == 32 else _MACHINES.get(number)


def arch_name(number: int, bits: int, order: str, flags: int) -> str:
    """Return the name of an architecture, by e_machine, class, byte order and e_flags."""
    if number == EM_PPC64 and order == "<":
        return "ppc64le"
    if number == EM_RISCV and bits == 32:
        return "riscv32"
    if number == EM_S390 and bits == 32:
        return "s390"
    if number == EM_MIPS and (bits == 64 or flags & 0x20):  # EF_MIPS_ABI2: n32
        return "mips64"
    known = _MACHINES.get(number)
    return f"e_machine {number}" if known is None else known.arch
