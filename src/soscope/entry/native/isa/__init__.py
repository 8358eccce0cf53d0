# SPDX-License-Identifier: Apache-2.0
"""What breakpoints in native processes must know of an instruction set: `machine(arch)`.

A file has the name that a row of model/arch.py has in `isa`.
"""

from __future__ import annotations

from soscope.model.arch import Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.isa.x86.instruction import Instruction as Instruction
    from soscope.entry.native.isa.x86 import NativeMachine as NativeMachine
    from soscope.entry.native.isa.x86 import Values as Values

_KNOWN = ("x86",)


def machine_of(arch: Arch) -> NativeMachine | None:
    """Return what is known of the processes of an architecture, None where that is nothing."""
    if arch.isa not in _KNOWN:
        return None
    from importlib import import_module

    known: NativeMachine | None = import_module(f"{__name__}.{arch.isa}").machine(arch)
    return known
