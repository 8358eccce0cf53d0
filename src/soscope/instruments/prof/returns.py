# SPDX-License-Identifier: Apache-2.0
"""The calls in an image's code that return to an address."""

from __future__ import annotations

from soscope.binfmt.isa import part
from soscope.errors import SoscopeError
from soscope.instruments.prof.naming import ImageFunctions

Code = list[tuple[int, int]]  # (start, end) ranges of code, link-time addresses
Call = tuple[bool, int | None, int | None]  # whether there is one, its target, its slot

_NO_CALL: Call = (False, None, None)


class ReturnAddresses:
    """Finds calls in the code of one image. `is_there` tells whether its machine is supported."""

    def __init__(self, functions: ImageFunctions) -> None:
        self._elf = functions.elf
        header = None if self._elf is None else self._elf.header
        self._code = part(None if header is None else header.arch, "returns")
        self.is_there = self._code is not None

    def call_before(self, vaddr: int) -> Call:
        """Return the call before a link-time address, by `call_before` of the instruction set."""
        if self._code is None or self._elf is None:
            return _NO_CALL
        size: int = self._code.LONGEST
        try:
            code = self._elf.read(vaddr - size, size, "code")
        except SoscopeError:
            return _NO_CALL  # an address outside of the file, from damaged data
        call: Call = self._code.call_before(code, vaddr)
        return call
