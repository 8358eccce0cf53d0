# SPDX-License-Identifier: Apache-2.0
"""Choose the decoder for the code of an architecture."""

from __future__ import annotations

from soscope.binfmt.isa import part
from soscope.binfmt.listing.base import Lister
from soscope.model.arch import arch_named


def lister_of(arch: str, bits: int, order: str, base: int = 0) -> Lister | None:
    """Return a decoder for `arch`, named as in model/filemap.py; None if there is none.

    `base` is the value of the base register of position-independent code, 0 if it is not known.
    """
    module = part(arch_named(arch), "listing")
    if module is None:
        return None
    lister: Lister = module.LISTER(bits, order, base)
    return lister
