# SPDX-License-Identifier: Apache-2.0
"""Differences between loaders of different machines: names of folders, flags in the cache.

glibc: sysdeps/unix/sysv/linux/*/{shlib-versions,dl-cache.h}, elf/ldconfig.h (FLAG_*), and
elf_machine_matches_host of sysdeps/*/dl-machine.h. Debian: dpkg's cputable for the folders.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf.reader import ElfReader
from soscope.model.arch import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_LOONGARCH,
    EM_MIPS,
    EM_PPC,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_SPARCV9,
    EM_X86_64,
    arch_here,
)

_MIPS_N32, _MIPS_NAN2008 = 0x20, 0x400
_ARM_HARD = 0x400
_ABI = {  # bits of e_flags that must be equal in all files of a process
    EM_MIPS: _MIPS_N32 | _MIPS_NAN2008,
    EM_RISCV: 0x6,  # how floating-point numbers are passed
    EM_LOONGARCH: 0x7,
}
_LIBC6 = 0x0003  # FLAG_ELF_LIBC6


class Kind(NamedTuple):
    """What a file must have in common with the program that loads it.

    `bits` is 32 or 64, `order` "<" or ">", `machine` e_machine, `abi` some bits of e_flags.
    """

    bits: int
    order: str
    machine: int
    abi: int


class Machine(NamedTuple):
    """The data of a kind of machine.

    `triplet` is Debian's name of its folders, `lib` the name on other systems. `loader` is
    glibc's loader, `musl` the architecture in the names of musl's files. `ids` are the flags of
    its libraries in ld.so.cache, the best first. `platform` is $PLATFORM, "" if it depends on the
    processor.
    """

    triplet: str
    lib: str
    loader: str
    musl: str
    ids: tuple[int, ...]
    platform: str = ""


def kind_of(image: ElfReader) -> Kind:
    """Return the kind of an image's machine."""
    header = image.header
    machine, flags = (header.machine, header.flags) if header else (0, 0)
    coding = image.encoding
    return Kind(coding.bits, coding.order, machine, flags & _ABI.get(machine, 0))


def machine_of(kind: Kind, flags: int = 0) -> Machine:
    """Return the data of `kind`; for an unknown kind, what all machines have in common.

    `flags` are the program's e_flags, which distinguish the two kinds of 32-bit ARM.
    """
    if kind.machine == EM_MIPS:
        return _mips(kind)
    if kind.machine == EM_ARM:
        if flags & _ARM_HARD:
            return _made("arm-linux-gnueabihf", "lib", "/lib/ld-linux-armhf.so.3", "armhf", 9)
        return _made("arm-linux-gnueabi", "lib", "/lib/ld-linux.so.3", "arm", 0xB)
    if kind.machine == EM_RISCV:
        return _riscv(kind)
    machine = _KNOWN.get((kind.machine, kind.bits, kind.order))
    return machine or Machine("", "lib", "", "", (_LIBC6,))


def _made(triplet: str, lib: str, loader: str, musl: str, flag: int, platform: str = "") -> Machine:
    ids: tuple[int, ...] = (flag << 8 | _LIBC6,)
    if flag in (9, 0xB):  # ARM: libraries of either kind may be marked as neutral
        ids = (*ids, _LIBC6)
        platform = "v7l"
    return Machine(triplet, lib, loader, musl, ids, platform)


def _riscv(kind: Kind) -> Machine:
    soft = kind.abi != 4  # EF_RISCV_FLOAT_ABI_DOUBLE
    name = ("ilp32" if kind.bits == 32 else "lp64") + ("" if soft else "d")
    return _made(
        f"riscv{kind.bits}-linux-gnu",
        f"lib{kind.bits}/{name}",
        f"/lib/ld-linux-riscv{kind.bits}-{name}.so.1",
        f"riscv{kind.bits}" + ("-sf" if soft else ""),
        0xF if soft else 0x10,
    )


def _mips(kind: Kind) -> Machine:
    end = "" if kind.order == ">" else "el"
    is_new = bool(kind.abi & _MIPS_NAN2008)
    loader = "ld-linux-mipsn8.so.1" if is_new else "ld.so.1"
    if kind.bits == 64:
        flag = 0xE if is_new else 7
        triplet, musl = f"mips64{end}-linux-gnuabi64", f"mips64{end}"
        return _made(triplet, "lib64", f"/lib64/{loader}", musl, flag)
    if kind.abi & _MIPS_N32:
        flag = 0xD if is_new else 6
        triplet, musl = f"mips64{end}-linux-gnuabin32", f"mipsn32{end}"
        return _made(triplet, "lib32", f"/lib32/{loader}", musl, flag)
    flag = 0xC if is_new else 0
    return _made(f"mips{end}-linux-gnu", "lib", f"/lib/{loader}", f"mips{end}", flag)


_KNOWN = {
    (EM_X86_64, 64, "<"): _made(
        "x86_64-linux-gnu", "lib64", "/lib64/ld-linux-x86-64.so.2", "x86_64", 3, "x86_64"
    ),
    (EM_X86_64, 32, "<"): _made(
        "x86_64-linux-gnux32", "libx32", "/libx32/ld-linux-x32.so.2", "x32", 8, "x86_64"
    ),
    (EM_386, 32, "<"): _made("i386-linux-gnu", "lib32", "/lib/ld-linux.so.2", "i386", 0, "i686"),
    (EM_AARCH64, 64, "<"): _made(
        "aarch64-linux-gnu", "lib64", "/lib/ld-linux-aarch64.so.1", "aarch64", 0xA, "aarch64"
    ),
    (EM_AARCH64, 64, ">"): _made(
        "aarch64_be-linux-gnu",
        "lib64",
        "/lib/ld-linux-aarch64_be.so.1",
        "aarch64_be",
        0xA,
        "aarch64_be",
    ),
    (EM_S390, 64, ">"): _made("s390x-linux-gnu", "lib64", "/lib/ld64.so.1", "s390x", 4),
    (EM_S390, 32, ">"): _made("s390-linux-gnu", "lib", "/lib/ld.so.1", "s390", 0),
    (EM_PPC64, 64, ">"): _made("powerpc64-linux-gnu", "lib64", "/lib64/ld64.so.1", "powerpc64", 5),
    (EM_PPC64, 64, "<"): _made(
        "powerpc64le-linux-gnu", "lib64", "/lib64/ld64.so.2", "powerpc64le", 5
    ),
    (EM_PPC, 32, ">"): _made("powerpc-linux-gnu", "lib", "/lib/ld.so.1", "powerpc", 0),
    (EM_SPARCV9, 64, ">"): _made("sparc64-linux-gnu", "lib64", "/lib64/ld-linux.so.2", "", 1),
    (EM_LOONGARCH, 64, "<"): _made(
        "loongarch64-linux-gnu",
        "lib64",
        "/lib64/ld-linux-loongarch-lp64d.so.1",
        "loongarch64",
        0x12,
        "loongarch64",
    ),
}


def is_native(kind: Kind) -> bool:
    """Return whether this processor runs programs of `kind` itself."""
    here = arch_here()
    return here is not None and kind.machine in (here.number, *here.runs)
