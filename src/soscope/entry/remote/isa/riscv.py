# SPDX-License-Identifier: Apache-2.0
"""RISC-V: the LP64D calling convention."""

from __future__ import annotations

from soscope.entry.remote.convention import LONG_DOUBLE_QUAD, Convention, RecordRules
from soscope.model.arch import Arch

_WORDS = tuple(f"a{number}" for number in range(8))

_LP64D = Convention(
    sp="sp",
    returns="ra",
    words=_WORDS,
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


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    return _LP64D if arch.bits == 64 else None
