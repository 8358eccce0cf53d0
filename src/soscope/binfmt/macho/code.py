# SPDX-License-Identifier: Apache-2.0
"""What the code of a stub, or of a stub helper, does: one decoder for each family of processors.

A decoder is two functions of (code, where in it, its address). They know the short sequences that
linkers write, not the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from soscope.binfmt.isa import part
from soscope.model.arch import arch_of_cputype


class StubWay(NamedTuple):
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


class StubHelper(NamedTuple):
    """One stub helper: what it hands to the resolver, and where it goes on.

    That is either an `offset` into the lazy bind opcodes, or (before LC_DYLD_INFO) the address
    of the pointer to fill, `slot`. `leads_to` is the code that all helpers share.
    """

    vaddr: int
    size: int
    offset: int | None
    slot: int | None
    leads_to: int


class MachoDecoder(NamedTuple):
    """The functions of one family, which return None for what is nothing of the kind.

    `helper` is None where all slots share one, which is an ordinary function.
    """

    stub: Callable[[bytes, int, int], StubWay | None]
    helper: Callable[[bytes, int, int], StubHelper | None] | None
    alignment: int


def decoder(cpu: int) -> MachoDecoder | None:
    """Return the decoder for a cputype, None where there is none."""
    arch = arch_of_cputype(cpu)
    known = part(arch, "macho")
    if arch is None or known is None:
        return None
    decoder: MachoDecoder = known.decoder(arch.bits)
    return decoder
