# SPDX-License-Identifier: Apache-2.0
"""32-bit MIPS: the ABI o32 with floats in float registers (hard-float)."""

from __future__ import annotations

from soscope.entry.remote.convention import (
    COMPLEX_WORDS,
    LONG_DOUBLE_SHORT,
    Convention,
    RecordRules,
)
from soscope.model.arch import Arch

# <bits/fcntl.h>: O_APPEND, O_DSYNC, O_NONBLOCK, O_CREAT, O_EXCL, O_NOCTTY, O_ASYNC, O_LARGEFILE,
# the rest of O_SYNC, O_DIRECT;
# <bits/mman.h>: MAP_NORESERVE, MAP_ANONYMOUS, MAP_GROWSDOWN, MAP_DENYWRITE, MAP_EXECUTABLE,
# MAP_LOCKED, MAP_POPULATE, MAP_NONBLOCK, MAP_STACK, MAP_HUGETLB
_FLAGS = {
    "open": {
        0x8: 0x400,
        0x10: 0x1000,
        0x80: 0x800,
        0x100: 0x40,
        0x400: 0x80,
        0x800: 0x100,
        0x1000: 0x2000,
        0x2000: 0x8000,
        0x4000: 0x100000,
        0x8000: 0x4000,
    },
    # <bits/sigaction.h>: SA_SIGINFO, SA_NOCLDWAIT
    "sigaction": {0x8: 0x4, 0x10000: 0x2},
    # <bits/socket_type.h>: SOCK_DGRAM, SOCK_STREAM, SOCK_NONBLOCK
    "socket_type": {0x1: 0x2, 0x2: 0x1, 0x80: 0x800},
    "mmap": {
        0x400: 0x4000,
        0x800: 0x20,
        0x1000: 0x100,
        0x2000: 0x800,
        0x4000: 0x1000,
        0x8000: 0x2000,
        0x10000: 0x8000,
        0x20000: 0x10000,
        0x40000: 0x20000,
        0x80000: 0x40000,
    },
}
# <asm/signal.h>, <asm/fcntl.h>, <bits/resource.h>, <bits/socket_type.h>
_VALUES = {
    "signal": {
        10: 7,
        12: 31,
        16: 10,
        17: 12,
        18: 17,
        19: 30,
        20: 28,
        21: 23,
        22: 29,
        23: 19,
        24: 20,
        25: 18,
        26: 21,
        27: 22,
        28: 26,
        29: 27,
        30: 24,
        31: 25,
    },
    "sigmask": {1: 0, 2: 1, 3: 2},
    "fcntl": {14: 5, 23: 9, 24: 8},
    "rlimit": {5: 7, 6: 9, 7: 5, 8: 6, 9: 8},
    "socket_type": {5: 5},  # else the flags below would change it
}
# <asm/errno.h>: (first, count, first on x86-64) of differing numbers
_ERRNOS = (
    (35, 10, 42),
    (45, 1, 35),
    (46, 1, 37),
    (50, 6, 52),
    (56, 1, 35),
    (74, 1, 72),
    (77, 1, 74),
    (78, 1, 36),
    (79, 10, 75),
    (89, 1, 38),
    (90, 1, 40),
    (91, 2, 85),
    (93, 1, 39),
    (94, 6, 87),
    (120, 15, 93),
    (135, 1, 117),
    (137, 4, 118),
    (143, 9, 108),
    (158, 1, 125),
    (159, 2, 123),
    (161, 8, 126),
    (1133, 1, 122),
)
# GDB's registers of the processor, which qemu uses without describing them.
_WORDS = tuple(f"r{number}" for number in range(32))
_NUMBERS = tuple(f"f{number}" for number in range(32))
_PLAIN = (*_WORDS, "status", "lo", "hi", "badvaddr", "cause", "pc", *_NUMBERS, "fcsr", "fir")


def _o32(order: str) -> Convention:
    is_big = order == ">"
    return Convention(
        sp="r29",
        returns="r31",
        words=("r4", "r5", "r6", "r7"),
        floats=("f12", "f14"),
        floats_lead=True,
        is_whole=("status", 26),  # the FR bit
        kept=(_WORDS, _NUMBERS, "fir"),
        stack=16,  # behind the save area of the argument registers
        pairs_even=True,
        variadic_in_words=True,
        target="r25",
        result="r2",
        result_lower="r3" if is_big else "",
        result_upper="" if is_big else "r3",
        result_float="f0",
        result_floats=("f0", "f2"),
        long_double=LONG_DOUBLE_SHORT,
        complex=COMPLEX_WORDS,
        records=RecordRules(most=-1),
        flags=_FLAGS,
        values=_VALUES,
        errnos=_ERRNOS,
        thread_at_call="r3",
        plain=_PLAIN,
        thread=(),
        system=bytes.fromhex("0000000c" if is_big else "0c000000"),  # syscall
        number="r2",
        mmap=4090,
        mmap_anonymous=0x800,
        system_stack=16,
    )


_KNOWN = {">": _o32(">"), "<": _o32("<")}


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    return _KNOWN.get(arch.order) if arch.bits == 32 and arch.emulator else None
