# SPDX-License-Identifier: Apache-2.0
"""PowerPC: 64-bit ELFv1 and ELFv2, and the 32-bit ABI with a secure PLT."""

from __future__ import annotations

from soscope.entry.remote.convention import (
    COMPLEX_SPLIT,
    COMPLEX_UNKNOWN,
    LONG_DOUBLE_PAIR,
    WORDS_BY_PLACE,
    Convention,
    RecordRules,
)
from soscope.model.arch import Arch

# glibc: sysdeps/unix/sysv/linux/powerpc/libc-start.c
_UNLIKE = frozenset(("__libc_start_main",))

# <bits/fcntl.h>: O_DIRECTORY, O_NOFOLLOW, O_LARGEFILE, O_DIRECT;
# <bits/mman.h>: MAP_NORESERVE, MAP_LOCKED
_FLAGS = {
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
    unlike=_UNLIKE,
    flags=_FLAGS,
    long_double=LONG_DOUBLE_PAIR,
    complex=COMPLEX_SPLIT,
    records=RecordRules(most=-1, numbers=8, has_unions=True, result_most=16),
    thread=("r13",),
    system=bytes.fromhex("02000044"),  # sc
    number="r0",
    mmap=90,
)


_ELF_V1 = Convention(
    sp="r1",
    returns="lr",
    words=tuple(f"r{number}" for number in range(3, 11)),
    floats=tuple(f"f{number}" for number in range(1, 14)),
    stack=48 + 8 * 8,
    by=WORDS_BY_PLACE,
    result="r3",
    result_float="f1",
    descriptor=("r2", "r11"),
    variadic_in_words=True,
    single_as_double=True,
    unlike=_UNLIKE,
    flags=_FLAGS,
    long_double=LONG_DOUBLE_PAIR,
    complex=COMPLEX_SPLIT,
    records=RecordRules(most=-1, numbers=1, is_right=True),
    thread=("r13",),
    system=bytes.fromhex("44000002"),
    number="r0",
    mmap=90,
)
_32 = Convention(
    sp="r1",
    returns="lr",
    words=tuple(f"r{number}" for number in range(3, 11)),
    floats=tuple(f"f{number}" for number in range(1, 9)),
    stack=8,
    pairs_even=True,
    result="r3",
    result_lower="r4",
    result_float="f1",
    target="r11",  # tells the resolver which slot it is
    single_as_double=True,
    unlike=_UNLIKE,
    flags=_FLAGS,
    long_double=LONG_DOUBLE_PAIR,
    complex=COMPLEX_UNKNOWN,  # GCC passes words, clang before 19 an address
    records=RecordRules(most=0),
    thread=("r2",),
    system=bytes.fromhex("44000002"),
    number="r0",
    mmap=90,
)


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    known = {(64, "<"): _ELF_V2, (64, ">"): _ELF_V1, (32, ">"): _32}
    return known.get((arch.bits, arch.order))
