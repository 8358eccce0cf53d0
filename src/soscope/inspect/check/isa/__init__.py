# SPDX-License-Identifier: Apache-2.0
"""The processors that stubs are run on: a file for each instruction set.

Each has `cpu(arch, order)`, and `macho(bits)` where Mach-O images are run, too; they return None
for what Unicorn does not know.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from soscope.model.arch import Arch

_KNOWN = ("aarch64", "arm", "mips", "ppc", "riscv", "s390x", "x86")


def known(arch: Arch | None) -> ModuleType | None:
    """Return what is known of running a machine's code, None for nothing."""
    if arch is None or arch.isa not in _KNOWN:
        return None
    return import_module(f"{__name__}.{arch.isa}")
