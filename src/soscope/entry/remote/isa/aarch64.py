# SPDX-License-Identifier: Apache-2.0
"""AArch64: the AAPCS64."""

from __future__ import annotations

from soscope.entry.remote.convention import LONG_DOUBLE_QUAD, Convention, RecordRules
from soscope.model.arch import Arch

# <bits/fcntl.h>: O_DIRECTORY, O_NOFOLLOW, O_DIRECT, O_LARGEFILE
_FLAGS = {"open": {0o40000: 0o200000, 0o100000: 0o400000, 0o200000: 0o40000, 0o400000: 0o100000}}

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
    flags=_FLAGS,
    number="x8",
    mmap=222,
)


def convention(arch: Arch) -> Convention | None:
    """Return the calling convention of `arch`, None if it is not known."""
    return _AAPCS64 if (arch.bits, arch.order) == (64, "<") else None
