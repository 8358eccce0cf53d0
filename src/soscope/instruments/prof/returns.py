# SPDX-License-Identifier: Apache-2.0
"""The calls in an image's code that return to an address."""

from __future__ import annotations

from soscope.binfmt.isa import part
from soscope.errors import SoscopeError
from soscope.instruments.prof.naming import ImageFunctions

Code = list[tuple[int, int]]  # where an image has some: (start, end), link-time addresses
Call = tuple[bool, int | None, int | None]  # is there one, where to, by which slot

_NO_CALL: Call = (False, None, None)


class ReturnAddresses:
    """Looks at the code of one image; `is_there` says whether its machine's code is known."""

    def __init__(self, functions: ImageFunctions) -> None:
        self._elf = functions.elf
        header = None if self._elf is None else self._elf.header
        self._code = part(None if header is None else header.arch, "returns")
        self.is_there = self._code is not None

    def call_before(self, vaddr: int) -> Call:
        """Return what `call_before` of the instruction set says of a link-time address."""
        if self._code is None or self._elf is None:
            return _NO_CALL
        size: int = self._code.LONGEST
        try:
            code = self._elf.read(vaddr - size, size, "code")
        except SoscopeError:
            return _NO_CALL  # an address outside the file, as damage gives it
        call: Call = self._code.call_before(code, vaddr)
        return call
