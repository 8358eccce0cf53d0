# SPDX-License-Identifier: Apache-2.0
"""x86: the System V psABIs. In 32-bit programs all arguments are on the stack."""

from __future__ import annotations

from soscope.entry.remote.convention import COMPLEX_WORDS, LONG_DOUBLE_X87, Convention, RecordRules
from soscope.model.arch import Arch

_I386 = Convention(
    pc="eip",
    sp="esp",
    returns="",
    words=(),
    stack=4,  # above the return address
    result="eax",
    result_upper="edx",
    result_words=("eax", "edx"),
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
    system_words=("ebx", "ecx", "edx", "esi", "edi", "ebp"),
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
        system_words=("rdi", "rsi", "rdx", "r10", "r8", "r9"),
    )


X86_64 = x86_64()


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    if arch.has_agent:
        return X86_64
    return _I386 if arch.bits == 32 and arch.order == "<" and arch.unames else None
