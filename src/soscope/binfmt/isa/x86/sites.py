# SPDX-License-Identifier: Apache-2.0
"""Call sites in stubs of x86-64 and i386: the one instruction that jumps through the slot."""

from __future__ import annotations

import re

from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub

# [endbr] [mov $index, %r11d or %ecx] [bnd] jmp *disp(%rip), *addr or *disp(%ebx)
_JUMP = re.compile(
    rb"(?:\xf3\x0f\x1e[\xfa\xfb])?(?:\x41\xbb.{4}|\xb9.{4})?(?P<jump>\xf2?\xff[\x25\xa3])",
    re.DOTALL,
)


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub; a stub that jumps by a return must run unchanged."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.start("jump"), JUMP)
