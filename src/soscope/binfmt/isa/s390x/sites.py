# SPDX-License-Identifier: Apache-2.0
"""Where stubs of s390x jump: the function's address is in r1 there."""

from __future__ import annotations

from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub

_JUMP = b"\x07\xf1"  # br %r1
_LOADED = 12  # bytes of what loads the slot


def place(code: bytes, _order: str) -> SiteInStub:
    """Return where a stub has its call site."""
    at = code.find(_JUMP, _LOADED)
    return SiteInStub(0, PASS) if at < 0 else SiteInStub(at, JUMP, len(_JUMP))
