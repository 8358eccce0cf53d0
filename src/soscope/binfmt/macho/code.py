# SPDX-License-Identifier: Apache-2.0
"""What the code of a stub, or of a stub helper, does: one decoder for each family of processors.

A decoder is two functions of (code, where in it, its address). They know the short sequences that
linkers write, not the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from soscope.binfmt.macho import constants as c


class Way(NamedTuple):
    """Where a stub leads: through the pointer at `slot`, or straight to `target`; `size` bytes.

    `selector_at` is the address of the pointer to the selector that an Objective-C stub
    loads. `signed` says that the pointer's signature is checked, `relative` that the stub finds
    the pointer by its own address where others of the processor do not.
    """

    size: int
    slot: int = 0
    target: int = 0
    selector_at: int = 0
    signed: bool = False
    relative: bool = False


class Helper(NamedTuple):
    """One stub helper: what it hands to the resolver, and where it goes on.

    That is either an `offset` into the lazy bind opcodes, or (before LC_DYLD_INFO) the address
    of the pointer to fill, `slot`. `leads_to` is the code that all helpers share.
    """

    vaddr: int
    size: int
    offset: int | None
    slot: int | None
    leads_to: int


class Decoder(NamedTuple):
    """The functions of one family, which return None for what is nothing of the kind.

    `helper` is None where all slots share one, which is an ordinary function.
    """

    stub: Callable[[bytes, int, int], Way | None]
    helper: Callable[[bytes, int, int], Helper | None] | None
    alignment: int


def decoder(cpu: int) -> Decoder | None:
    """Return the decoder for a cputype, None where there is none."""
    if cpu in (c.CPU_X86_64, c.CPU_I386):
        from soscope.binfmt.macho import code_x86

        if cpu == c.CPU_X86_64:
            return Decoder(code_x86.stub64, code_x86.helper64, 1)
        return Decoder(code_x86.stub32, code_x86.helper32, 1)
    if cpu in (c.CPU_ARM64, c.CPU_ARM64_32):
        from soscope.binfmt.macho import code_arm64

        return Decoder(code_arm64.stub, code_arm64.helper, 4)
    if cpu in (c.CPU_PPC, c.CPU_PPC64):
        from soscope.binfmt.macho import code_ppc

        stub = code_ppc.stub64 if cpu == c.CPU_PPC64 else code_ppc.stub32
        return Decoder(stub, None, 4)
    if cpu == c.CPU_ARM:
        from soscope.binfmt.macho import code_arm

        return Decoder(code_arm.stub, code_arm.helper, 4)
    return None
