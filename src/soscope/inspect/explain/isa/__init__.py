# SPDX-License-Identifier: Apache-2.0
"""What `explain` knows about each instruction set: a file for each.

A file may have these names:

    RESOLVERS    arguments of the loaders' resolvers, and registers that they keep
    CAPSTONE     name of a machine -> (CS_ARCH_…, CS_MODE_…)
    ALWAYS_LAZY  machines on which every dyld binds lazily -> their name in the text
    INDEX_STEPS  machines whose resolver turns an index into an offset -> bytes of one entry
    FIRST_WORD   index of the first word of the GOT that the loader fills, else 1
    pointer      base of position-independent code, else 0
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from soscope.model.arch import Arch

_KNOWN = ("aarch64", "arm", "mips", "ppc", "riscv", "s390x", "x86")


def known(arch: Arch | None, name: str, default: Any) -> Any:
    """Return a machine's value under one of the names above, `default` if it has none."""
    if arch is None or arch.isa not in _KNOWN:
        return default
    return getattr(import_module(f"{__name__}.{arch.isa}"), name, default)
