# SPDX-License-Identifier: Apache-2.0
"""Choose the decoder of stubs on PowerPC."""

from __future__ import annotations

from soscope.binfmt.stubs.table import Decoder
from soscope.model.arch import Arch


def decoder(arch: Arch) -> Decoder:
    """Return the decoder of stubs, for 32 or 64 bits; the stubs lie among the functions."""
    if arch.bits == 32:
        from soscope.binfmt.isa.ppc import stubs32

        return Decoder(stubs32.find, (), stubs32.in_place)
    from soscope.binfmt.isa.ppc import stubs64

    return Decoder(stubs64.find, ())
