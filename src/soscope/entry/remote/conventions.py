# SPDX-License-Identifier: Apache-2.0
"""The calling conventions of the machines whose programs are traced by a stub, as one table.

Layouts of glibc's structures that differ from x86-64's stand at the end of the module.
"""

from __future__ import annotations

from soscope.entry.remote.convention import (
    COMPLEX_POINTER,
    COMPLEX_SPLIT,
    COMPLEX_UNKNOWN,
    COMPLEX_WORDS,
    LONG_DOUBLE_PAIR,
    LONG_DOUBLE_POINTER,
    LONG_DOUBLE_QUAD,
    LONG_DOUBLE_SHORT,
    LONG_DOUBLE_X87,
    WORDS_BY_KIND,
    WORDS_BY_PLACE,
    Convention,
    RecordRules,
)
from soscope.model.arch import Arch

# x86: the System V psABIs. In 32-bit programs all arguments are on the stack.

I386 = Convention(
    pc="eip",
    sp="esp",
    returns="",
    words=(),
    stack=4,  # above the return address
    result="eax",
    result_upper="edx",
    words_of_result=("eax", "edx"),
    result_float="st",
    result_x87="st",
    result_top="fstat",  # qemu numbers registers by place, not from the stack's top
    popped=(4, 8),  # a hidden result pointer is popped with the return address
    code=1,
    breakpoint=1,
    long_double=LONG_DOUBLE_X87,
    single_as_double=True,  # for a result
    complex=COMPLEX_WORDS,
    records=RecordRules(most=-1),
    most_aligned=4,
    thread=("gs_base",),
    system=bytes.fromhex("cd80"),
    number="eax",
    mmap=192,  # mmap2, whose offset is in pages
    words_of_system=("ebx", "ecx", "edx", "esi", "edi", "ebp"),
)


def x86_64(result_x87: str = "") -> Convention:
    """Return the convention. `result_x87` is the name of the x87 stack's top register.

    Stubs name it differently, because some count from the top of the stack and some do not.
    """
    return Convention(
        pc="rip",
        sp="rsp",
        returns="",
        words=("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
        floats=tuple(f"xmm{number}" for number in range(8)),
        stack=8,  # above the return address
        result="rax",
        result_float="xmm0",
        result_x87=result_x87,
        popped=(8, 8),
        code=1,
        breakpoint=1,
        long_double=LONG_DOUBLE_X87,
        records=RecordRules(most=0, by_class=True),
        thread=("fs_base",),
        system=bytes.fromhex("0f05"),
        number="rax",
        mmap=9,
        words_of_system=("rdi", "rsi", "rdx", "r10", "r8", "r9"),
    )


X86_64 = x86_64()

# AArch64: the AAPCS64.

# <bits/fcntl.h>: O_DIRECTORY, O_NOFOLLOW, O_DIRECT, O_LARGEFILE
_ARM_FLAGS = {
    "open": {0o40000: 0o200000, 0o100000: 0o400000, 0o200000: 0o40000, 0o400000: 0o100000}
}

_AAPCS64 = Convention(
    sp="sp",
    returns="x30",
    words=tuple(f"x{number}" for number in range(8)),
    floats=tuple(f"v{number}" for number in range(8)),
    instead=(("v", "z"),),  # the names with SVE
    result="x0",
    result_float="v0",
    target="x17",  # a stub loads the address there
    long_double=LONG_DOUBLE_QUAD,
    floats_hold_quads=True,
    records=RecordRules(
        most=16, numbers=4, has_unions=True, is_undivided=True, result_most=16, pointer="x8"
    ),
    thread=("TPIDR_EL0",),
    system=bytes.fromhex("010000d4"),  # svc 0
    flags=_ARM_FLAGS,
    number="x8",
    mmap=222,
)

# 32-bit ARM: the AAPCS with floats in float registers (hard-float).

_AAPCS = Convention(
    sp="sp",
    returns="lr",
    words=("r0", "r1", "r2", "r3"),
    floats=tuple(f"d{number}" for number in range(8)),
    pairs_even=True,
    singles_packed=True,
    variadic_in_words=True,
    result="r0",
    result_upper="r1",
    result_float="d0",
    slot_in="r12",  # tells the resolver which slot it is
    state=("cpsr", 5),  # Thumb
    code=2,
    breakpoint=4,
    long_double=LONG_DOUBLE_SHORT,
    records=RecordRules(most=-1, numbers=4, has_unions=True, result_most=4),
    thread=("TPIDRURO",),
    system=bytes.fromhex("00df"),  # svc 0, in Thumb
    flags=_ARM_FLAGS,
    number="r7",
    mmap=192,  # mmap2, whose offset is in pages
    words_of_system=("r0", "r1", "r2", "r3", "r4", "r5"),
)

# RISC-V: the LP64D calling convention.

_LP64D = Convention(
    sp="sp",
    returns="ra",
    words=tuple(f"a{number}" for number in range(8)),
    floats=tuple(f"fa{number}" for number in range(8)),
    result="a0",
    result_float="fa0",
    target="t3",  # loaded by a stub; the resolver needs it
    behind_in="t1",  # the resolver needs this, too
    variadic_in_words=True,
    spills_into_words=True,
    code=2,
    breakpoint=2,
    long_double=LONG_DOUBLE_QUAD,
    records=RecordRules(most=16, is_mixed=True, result_most=16),
    thread=("tp",),
    system=bytes.fromhex("73000000"),  # ecall
    number="a7",
    mmap=222,
)

# z/Architecture: the ELF ABI s390x supplement.

_S390X = Convention(
    pc="pswa",
    sp="r15",
    returns="r14",
    words=("r2", "r3", "r4", "r5", "r6"),
    floats=("f0", "f2", "f4", "f6"),
    stack=160,  # behind the register save area
    result="r2",
    result_float="f0",
    singles_high=True,
    target="r1",  # a stub loads the address there
    code=2,
    breakpoint=2,
    long_double=LONG_DOUBLE_POINTER,
    complex=COMPLEX_POINTER,
    records=RecordRules(most=8, numbers=1, sizes=(1, 2, 4, 8), is_right=True),
    thread=("acr0", "acr1"),
    system=bytes.fromhex("0a5a"),  # svc 90: the number is part of it
    number="r1",
    mmap=90,
    mmap_by_address=True,
)

# PowerPC: 64-bit ELFv1 and ELFv2, and the 32-bit ABI with a secure PLT.

# glibc: sysdeps/unix/sysv/linux/powerpc/libc-start.c
_PPC_UNLIKE = frozenset(("__libc_start_main",))

# <bits/fcntl.h>: O_DIRECTORY, O_NOFOLLOW, O_LARGEFILE, O_DIRECT;
# <bits/mman.h>: MAP_NORESERVE, MAP_LOCKED
_PPC_FLAGS = {
    "open": {0o40000: 0o200000, 0o100000: 0o400000, 0o200000: 0o100000, 0o400000: 0o40000},
    "mmap": {0x40: 0x4000, 0x80: 0x2000},
}

_ELF_V2 = Convention(
    sp="r1",
    returns="lr",
    words=tuple(f"r{number}" for number in range(3, 11)),
    floats=tuple(f"f{number}" for number in range(1, 14)),
    # ELFv2 2.2.3.1: the parameter save area begins 32 bytes above the back chain word, and has
    # room for the arguments in registers, too.
    stack=32 + 8 * 8,
    by=WORDS_BY_PLACE,
    result="r3",
    result_float="f1",
    target="r12",  # 2.3.2.1: the global entry point computes the TOC pointer from it
    local_entries=True,
    single_as_double=True,
    variadic_in_words=True,
    unlike=_PPC_UNLIKE,
    flags=_PPC_FLAGS,
    long_double=LONG_DOUBLE_PAIR,
    complex=COMPLEX_SPLIT,
    records=RecordRules(most=-1, numbers=8, has_unions=True, result_most=16),
    thread=("r13",),
    system=bytes.fromhex("02000044"),  # sc
    number="r0",
    mmap=90,
)
_ELF_V1 = _ELF_V2.but(
    stack=48 + 8 * 8,
    target="",
    local_entries=False,
    descriptor=("r2", "r11"),
    records=RecordRules(most=-1, numbers=1, is_right=True),
    system=bytes.fromhex("44000002"),
)
_PPC_32 = _ELF_V1.but(
    floats=tuple(f"f{number}" for number in range(1, 9)),
    stack=8,
    by=WORDS_BY_KIND,
    pairs_even=True,
    variadic_in_words=False,
    result_lower="r4",
    descriptor=(),
    target="r11",  # tells the resolver which slot it is
    complex=COMPLEX_UNKNOWN,  # GCC passes words, clang before 19 an address
    records=RecordRules(most=0),
    thread=("r2",),
)

# 32-bit MIPS: the ABI o32 with floats in float registers (hard-float).

# <bits/fcntl.h>: O_APPEND, O_DSYNC, O_NONBLOCK, O_CREAT, O_EXCL, O_NOCTTY, O_ASYNC, O_LARGEFILE,
# the rest of O_SYNC, O_DIRECT;
# <bits/mman.h>: MAP_NORESERVE, MAP_ANONYMOUS, MAP_GROWSDOWN, MAP_DENYWRITE, MAP_EXECUTABLE,
# MAP_LOCKED, MAP_POPULATE, MAP_NONBLOCK, MAP_STACK, MAP_HUGETLB
_MIPS_FLAGS = {
    "open": {
        0x8: 0x400, 0x10: 0x1000, 0x80: 0x800, 0x100: 0x40, 0x400: 0x80, 0x800: 0x100,
        0x1000: 0x2000, 0x2000: 0x8000, 0x4000: 0x100000, 0x8000: 0x4000,
    },
    # <bits/sigaction.h>: SA_SIGINFO, SA_NOCLDWAIT
    "sigaction": {0x8: 0x4, 0x10000: 0x2},
    # <bits/socket_type.h>: SOCK_DGRAM, SOCK_STREAM, SOCK_NONBLOCK
    "socket_type": {0x1: 0x2, 0x2: 0x1, 0x80: 0x800},
    "mmap": {
        0x400: 0x4000, 0x800: 0x20, 0x1000: 0x100, 0x2000: 0x800, 0x4000: 0x1000, 0x8000: 0x2000,
        0x10000: 0x8000, 0x20000: 0x10000, 0x40000: 0x20000, 0x80000: 0x40000,
    },
}  # fmt: skip
# <asm/signal.h>, <asm/fcntl.h>, <bits/resource.h>, <bits/socket_type.h>
_MIPS_VALUES = {
    "signal": {
        10: 7, 12: 31, 16: 10, 17: 12, 18: 17, 19: 30, 20: 28, 21: 23, 22: 29, 23: 19, 24: 20,
        25: 18, 26: 21, 27: 22, 28: 26, 29: 27, 30: 24, 31: 25,
    },
    "sigmask": {1: 0, 2: 1, 3: 2},
    "fcntl": {14: 5, 23: 9, 24: 8},
    "rlimit": {5: 7, 6: 9, 7: 5, 8: 6, 9: 8},
    "socket_type": {5: 5},  # else the flags below would change it
}  # fmt: skip
# <asm/errno.h>: (first, count, first on x86-64) of differing numbers
_MIPS_ERRNOS = (
    (35, 10, 42), (45, 1, 35), (46, 1, 37), (50, 6, 52), (56, 1, 35), (74, 1, 72), (77, 1, 74),
    (78, 1, 36), (79, 10, 75), (89, 1, 38), (90, 1, 40), (91, 2, 85), (93, 1, 39), (94, 6, 87),
    (120, 15, 93), (135, 1, 117), (137, 4, 118), (143, 9, 108), (158, 1, 125), (159, 2, 123),
    (161, 8, 126), (1133, 1, 122),
)  # fmt: skip
# GDB's registers of the processor, which qemu uses without describing them.
_MIPS_WORDS = tuple(f"r{number}" for number in range(32))
_MIPS_NUMBERS = tuple(f"f{number}" for number in range(32))
_MIPS_PLAIN = (
    *(*_MIPS_WORDS, "status", "lo", "hi", "badvaddr", "cause", "pc"),
    *(*_MIPS_NUMBERS, "fcsr", "fir"),
)


def _o32(order: str) -> Convention:
    is_big = order == ">"
    return Convention(
        sp="r29",
        returns="r31",
        words=("r4", "r5", "r6", "r7"),
        floats=("f12", "f14"),
        floats_lead=True,
        is_whole=("status", 26),  # the FR bit
        kept=(_MIPS_WORDS, _MIPS_NUMBERS, "fir"),
        stack=16,  # behind the save area of the argument registers
        pairs_even=True,
        variadic_in_words=True,
        target="r25",
        result="r2",
        result_lower="r3" if is_big else "",
        result_upper="" if is_big else "r3",
        result_float="f0",
        floats_of_result=("f0", "f2"),
        long_double=LONG_DOUBLE_SHORT,
        complex=COMPLEX_WORDS,
        records=RecordRules(most=-1),
        flags=_MIPS_FLAGS,
        constants=_MIPS_VALUES,
        errnos=_MIPS_ERRNOS,
        thread_at_call="r3",
        plain=_MIPS_PLAIN,
        thread=(),
        system=bytes.fromhex("0000000c" if is_big else "0c000000"),  # syscall
        number="r2",
        mmap=4090,
        mmap_anonymous=0x800,
        system_stack=16,
    )


# (name of a row of model/arch.py, bits of a word, byte order, "" for both)
_KNOWN = {
    ("x86-64", 64, "<"): X86_64,
    ("i386", 32, "<"): I386,
    ("aarch64", 64, "<"): _AAPCS64,
    ("arm", 32, ""): _AAPCS,
    ("riscv64", 64, ""): _LP64D,
    ("s390x", 64, ">"): _S390X,
    ("ppc64le", 64, "<"): _ELF_V2,
    ("ppc64", 64, ">"): _ELF_V1,
    ("ppc", 32, ">"): _PPC_32,
    ("mips", 32, ">"): _o32(">"),
    ("mips", 32, "<"): _o32("<"),
}


def convention_of(arch: Arch) -> Convention | None:
    """Return the calling convention of an architecture, None if it is not known."""
    return _KNOWN.get((arch.name, arch.bits, arch.order))


# Layouts of glibc's structures that differ from x86-64's. Each line has a structure, machines, its
# size in bytes, and the offset and size of each shown field, with nested structures flattened.
# `scripts/layouts.py` asks compilers for them and writes the lines.
_LAYOUTS = """
dirent arm,i386,ppc,mips 268 10:1 11:256
dirent64 i386 276 18:1 19:256
epoll_data arm,i386,ppc,mips 8 0:4 0:4
epoll_event i386 12 0:4 4:4 4:4
epoll_event arm,ppc,mips 16 0:4 8:4 8:4
epoll_event ppc64le,aarch64,riscv64,s390x,ppc64 16 0:4 8:8 8:4
flock arm,i386,ppc 16 0:2 2:2 4:4 8:4 12:4
flock mips 36 0:2 2:2 4:4 8:4 16:4
iovec arm,i386,ppc,mips 8 0:4 4:4
itimerspec arm,i386,ppc,mips 16 0:4 4:4 8:4 12:4
itimerval arm,i386,ppc,mips 16 0:4 4:4 8:4 12:4
rlimit arm,i386,ppc,mips 8 0:4 4:4
rusage arm,i386,ppc,mips 72 0:4 4:4 8:4 12:4 16:4
sigaction arm,i386,ppc 140 0:4 4:128 132:4
sigaction mips 144 4:4 8:128 0:4
sigaction s390x 152 0:8 24:128 12:4
sigevent arm,i386,ppc,mips 64 0:4 0:4 4:4 8:4 12:4 12:4 16:4
siginfo arm,i386,ppc 128 0:4 4:4 8:4 12:4 16:4 20:4 20:4 12:4 16:4 20:4 24:4 28:4 12:4 16:4 20:4
  20:4 12:4 12:4 16:4
siginfo mips 128 0:4 8:4 4:4 12:4 16:4 20:4 20:4 12:4 16:4 20:4 24:4 28:4 12:4 16:4 20:4 20:4 12:4
  12:4 16:4
sigval arm,i386,ppc,mips 4 0:4 0:4
stat arm,i386,ppc 88 16:4 44:4
stat aarch64,riscv64 128 16:4 48:8
stat mips 144 20:4 48:4
stat64 i386 96 16:4 44:8
stat64 arm,ppc 104 16:4 48:8
stat64 aarch64,riscv64 128 16:4 48:8
stat64 mips 160 24:4 56:8
timespec arm,i386,ppc,mips 8 0:4 4:4
timeval arm,i386,ppc,mips 8 0:4 4:4
tm arm,i386,ppc,mips 44 0:4 4:4 8:4 12:4 16:4 20:4 24:4 28:4 32:4 36:4 40:4
utimbuf arm,i386,ppc,mips 8 0:4 4:4
"""


def layouts_of(machine: str) -> dict[str, tuple[int, tuple[tuple[int, int], ...]]]:
    """Return (size, offset and size of each field) of structures that differ on a machine."""
    layouts = {}
    for line in _LAYOUTS.replace("\n ", " ").split("\n")[1:-1]:
        name, machines, size, *fields = line.split()
        if machine in machines.split(","):
            places = (field.split(":") for field in fields)
            layouts[name] = (int(size), tuple((int(at), int(long)) for at, long in places))
    return layouts
