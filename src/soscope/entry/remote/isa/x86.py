# SPDX-License-Identifier: Apache-2.0
"""x86: the System V psABIs; of 32 bits everything is on the stack."""

from __future__ import annotations

from soscope.entry.remote.convention import (
    COMPLEX_WORDS,
    LONG_DOUBLE_X87,
    Convention,
    RecordRules,
)
from soscope.model.arch import Arch

_I386 = Convention(
    pc="eip",
    sp="esp",
    returns="",
    words=(),
    stack=4,  # behind the return address
    result="eax",
    result_upper="edx",
    result_words=("eax", "edx"),
    result_float="st",
    result_x87="st",
    result_top="fstat",  # qemu names registers by where they lie, not from the top of the stack
    popped=(4, 8),  # a hidden pointer to the result goes with the return address
    code=1,
    breakpoint=1,
    long_double=LONG_DOUBLE_X87,
    single_as_double=True,  # of a result
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
    """Return how functions are called; `result_x87` is the register on top of the x87 stack.

    It has another name with each stub: some count from the top, some do not.
    """
    return Convention(
        pc="rip",
        sp="rsp",
        returns="",
        words=("rdi", "rsi", "rdx", "rcx", "r8", "r9"),
        floats=tuple(f"xmm{number}" for number in range(8)),
        stack=8,  # behind the return address
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
    """Return how functions are called on `arch`, None where that is not known here."""
    if arch.has_agent:
        return X86_64
    return _I386 if arch.bits == 32 and arch.order == "<" and arch.unames else None
