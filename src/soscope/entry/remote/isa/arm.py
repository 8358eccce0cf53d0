# SPDX-License-Identifier: Apache-2.0
"""32-bit ARM: the AAPCS with floats in float registers (hard-float)."""

from __future__ import annotations

from soscope.entry.remote.convention import LONG_DOUBLE_SHORT, Convention, RecordRules
from soscope.model.arch import Arch

# <bits/fcntl.h>: O_DIRECTORY, O_NOFOLLOW, O_DIRECT, O_LARGEFILE
_FLAGS = {"open": {0o40000: 0o200000, 0o100000: 0o400000, 0o200000: 0o40000, 0o400000: 0o100000}}

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
    flags=_FLAGS,
    number="r7",
    mmap=192,  # mmap2, whose offset is in pages
    system_words=("r0", "r1", "r2", "r3", "r4", "r5"),
)


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    return _AAPCS if arch.bits == 32 else None
