# SPDX-License-Identifier: Apache-2.0
"""No-operations on x86-64 and i386, with which compilers reserve room."""

from __future__ import annotations

import re

# Intel SDM, "NOP": also those of several bytes, with any number of prefixes
_NOP = re.compile(
    rb"(?:\x66|\x2e)*(?:\x90|\x0f\x1f(?:\0|\x40.|\x44..|\x80.{4}|\x84.{5}))", re.DOTALL
)
_LANDING = (b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb")


def nops(code: bytes) -> list[int]:
    """Return the sizes in bytes of the no-operations at the start of `code`, in order.

    An endbr, the landing mark for indirect calls, may stand before them.
    """
    at = 4 if code.startswith(_LANDING) else 0
    sizes = []
    while match := _NOP.match(code, at):
        sizes.append(match.end() - at)
        at = match.end()
    return sizes
