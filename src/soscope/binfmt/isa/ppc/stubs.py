# SPDX-License-Identifier: Apache-2.0
"""Stubs on PowerPC: which decoder."""

from __future__ import annotations

from soscope.binfmt.stubs.table import Decoder
from soscope.model.arch import Arch


def decoder(arch: Arch) -> Decoder:
    """Return the decoder of stubs for 32 or for 64 bits; both lie among the functions."""
    if arch.bits == 32:
        from soscope.binfmt.isa.ppc import stubs32

        return Decoder(stubs32.find, (), stubs32.in_place)
    from soscope.binfmt.isa.ppc import stubs64

    return Decoder(stubs64.find, ())
