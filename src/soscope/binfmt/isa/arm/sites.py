# SPDX-License-Identifier: Apache-2.0
"""Where stubs of arm jump: one instruction loads the slot, whose address is in ip, and goes on."""

from __future__ import annotations

import re

from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub

# ldr pc, [ip, #near]! or ldr pc, [ip]; Thumb's ldr.w pc, [ip], which lies at any even address
_JUMP = re.compile(
    rb"(?:..)*?(?P<jump>.[\xf0-\xff]\xbc\xe5|\0\xf0\x9c\xe5|\xdc\xf8\0\xf0)", re.DOTALL
)


def place(code: bytes, _order: str) -> SiteInStub:
    """Return where a stub has its call site; one for Thumb has two entrances."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.start("jump"), JUMP)
