# SPDX-License-Identifier: Apache-2.0
"""The processors on which stubs are run: a file for each instruction set.

Each has `cpu(arch, order)`, and `macho(bits)` if Mach-O images can be run, too. They return None
if Unicorn does not support the machine.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from soscope.model.arch import Arch

_KNOWN = ("aarch64", "arm", "mips", "ppc", "riscv", "s390x", "x86")


def known(arch: Arch | None) -> ModuleType | None:
    """Return the module to run a machine's code, None if there is none."""
    if arch is None or arch.isa not in _KNOWN:
        return None
    return import_module(f"{__name__}.{arch.isa}")
