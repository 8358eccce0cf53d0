# SPDX-License-Identifier: Apache-2.0
"""Call sites in stubs of arm: the load of the slot into pc, when ip has the slot's address."""

from __future__ import annotations

import re

from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub

# ldr pc, [ip, #near]! or ldr pc, [ip]; or Thumb's ldr.w pc, [ip], at any even address
_JUMP = re.compile(
    rb"(?:..)*?(?P<jump>.[\xf0-\xff]\xbc\xe5|\0\xf0\x9c\xe5|\xdc\xf8\0\xf0)", re.DOTALL
)


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub; a stub for Thumb has two entry points."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.start("jump"), JUMP)
