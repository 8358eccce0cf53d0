# SPDX-License-Identifier: Apache-2.0
"""What `explain` knows of each instruction set: a file each.

RESOLVERS    what the resolvers of loaders are given and keep
CAPSTONE     name of a machine -> (CS_ARCH_…, CS_MODE_…)
ALWAYS_LAZY  machines for which dyld binds lazily in every version -> how they are called
INDEX_STEPS  machines whose resolver is given an index that it makes an offset -> bytes of one
FIRST_WORD   the first word of the GOT that the loader fills, else 1
pointer      what position-independent code counts from, else 0
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from soscope.model.arch import Arch

_KNOWN = ("aarch64", "arm", "mips", "ppc", "riscv", "s390x", "x86")


def known(arch: Arch | None, name: str, default: Any) -> Any:
    """Return what is known of a machine under one of the names above, else `default`."""
    if arch is None or arch.isa not in _KNOWN:
        return default
    return getattr(import_module(f"{__name__}.{arch.isa}"), name, default)
