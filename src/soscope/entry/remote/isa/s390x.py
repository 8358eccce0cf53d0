# SPDX-License-Identifier: Apache-2.0
"""z/Architecture: the ELF ABI s390x supplement."""

from __future__ import annotations

from soscope.entry.remote.convention import (
    COMPLEX_POINTER,
    LONG_DOUBLE_POINTER,
    Convention,
    RecordRules,
)
from soscope.model.arch import Arch

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


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    return _S390X if arch.bits == 64 else None
