# SPDX-License-Identifier: Apache-2.0
"""Decode the code of a stub or stub helper: one decoder for each family of processors.

A decoder is two functions of (code, position in it, its address). They only know the short
sequences that linkers write, not the whole instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from soscope.binfmt.isa import part
from soscope.model.arch import arch_of_cputype


class StubWay(NamedTuple):
    """The target of a stub: through the pointer at `slot`, or directly `target`; `size` bytes.

    `selector_at` is the address of the pointer to the selector that an Objective-C stub loads. If
    `signed` is true, the stub checks the pointer's signature. If `relative` is true, the stub
    addresses the pointer relative to itself, while other stubs of this processor do not.
    """

    size: int
    slot: int = 0
    target: int = 0
    selector_at: int = 0
    signed: bool = False
    relative: bool = False


class StubHelper(NamedTuple):
    """One stub helper: the argument that it passes to the resolver, and where it jumps.

    The argument is either an `offset` into the lazy bind opcodes, or (before LC_DYLD_INFO)
    `slot`, the address of the pointer to fill. `leads_to` is the code that all helpers share.
    """

    vaddr: int
    size: int
    offset: int | None
    slot: int | None
    leads_to: int


class MachoDecoder(NamedTuple):
    """The functions of one family; they return None if the code is not a stub or helper.

    `helper` is None if all slots share one helper, which is an ordinary function.
    """

    stub: Callable[[bytes, int, int], StubWay | None]
    helper: Callable[[bytes, int, int], StubHelper | None] | None
    alignment: int


def decoder(cpu: int) -> MachoDecoder | None:
    """Return the decoder for a cputype, None if there is none."""
    arch = arch_of_cputype(cpu)
    known = part(arch, "macho")
    if arch is None or known is None:
        return None
    decoder: MachoDecoder = known.decoder(arch.bits)
    return decoder
