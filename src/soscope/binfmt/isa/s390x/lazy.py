# SPDX-License-Identifier: Apache-2.0
"""The argument that an unbound slot passes to the lazy resolver on s390x.

The stub has it as a constant. glibc: sysdeps/s390/s390-64/dl-trampoline.h.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import FileSlot

# basr %r1, %r0; lgf %r1, 12(%r1); jg PLT0; .long argument
_BEHIND = re.compile(rb"\x0d\x10\xe3\x10\x10\x0c\0\x14\xc0\xf4.{4}(.{4})", re.DOTALL)
# mold: larl %r1, slot; lg %r1, 0(%r1); lgfi %r0, argument; br %r1
_LOADED = re.compile(rb"\xc0\x10.{4}\xe3\x10\x10\0\0\x04\xc0\x01(.{4})\x07\xf1", re.DOTALL)


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    match = _BEHIND.match(mapped.code(helper))
    if match is None and slot.stubs:
        match = _LOADED.match(mapped.code(slot.stubs[0].vaddr))
    return None if match is None else int.from_bytes(match[1], "big")
