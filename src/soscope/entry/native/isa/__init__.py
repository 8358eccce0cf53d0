# SPDX-License-Identifier: Apache-2.0
"""The instruction sets that support breakpoints in native processes: `machine(arch)`.

A module is named after the field `isa` of a row of model/arch.py.
"""

from __future__ import annotations

from soscope.model.arch import Arch, arch_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.machine import NativeMachine

_KNOWN = ("aarch64", "x86")


def machine_of(arch: Arch) -> NativeMachine | None:
    """Return the machine for processes of an architecture, None if it is not supported.

    It is None, too, if this kernel does not run programs of the architecture.
    """
    here = arch_here()
    if arch.isa not in _KNOWN or here is None or arch.number not in (here.number, *here.runs):
        return None
    from importlib import import_module

    known: NativeMachine | None = import_module(f"{__name__}.{arch.isa}").machine(arch)
    return known
