# SPDX-License-Identifier: Apache-2.0
"""Call sites in stubs of s390x: at the jump, when r1 has the function's address."""

from __future__ import annotations

from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub

_JUMP = b"\x07\xf1"  # br %r1
_LOADED = 12  # bytes of the code that loads the slot


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub: the instruction that all its calls run."""
    at = code.find(_JUMP, _LOADED)
    return SiteInStub(0, PASS) if at < 0 else SiteInStub(at, JUMP, len(_JUMP))
