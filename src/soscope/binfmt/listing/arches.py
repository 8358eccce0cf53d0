# SPDX-License-Identifier: Apache-2.0
"""Which decoder reads the code of which architecture."""

from __future__ import annotations

from soscope.binfmt.isa import part
from soscope.binfmt.listing.base import Lister
from soscope.model.arch import arch_named


def lister_of(arch: str, bits: int, order: str, base: int = 0) -> Lister | None:
    """Return a decoder for `arch`, as model/filemap.py names it; None where there is none.

    `base` is what a register holds that position-independent code counts from, 0: unknown.
    """
    module = part(arch_named(arch), "listing")
    if module is None:
        return None
    lister: Lister = module.LISTER(bits, order, base)
    return lister
