# SPDX-License-Identifier: Apache-2.0
"""Calling conventions of the architectures whose programs are traced by a stub.

A module is named after the field `isa` of a row of model/arch.py. Its `convention(arch)` returns
the convention of one of its architectures, None if it has none.
"""

from __future__ import annotations

from soscope.model.arch import Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.convention import Convention

_KNOWN = ("aarch64", "arm", "mips", "ppc", "riscv", "s390x", "x86")


def convention_of(arch: Arch) -> Convention | None:
    """Return the calling convention of an architecture, None if it is not known."""
    if arch.isa not in _KNOWN:
        return None
    from importlib import import_module

    known: Convention | None = import_module(f"{__name__}.{arch.isa}").convention(arch)
    return known
