# SPDX-License-Identifier: Apache-2.0
"""Stubs on s390x, as GNU ld, gold, LLD and mold write them.

ELF ABI s390x Supplement, "Procedure Linkage Table". A stub addresses its slot by the distance in
halfwords from its own first instruction, in every kind of code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.model.arch import Arch

_PLACES = (".plt", ".iplt")

# larl %r1, slot; lg %r1, 0(%r1); then one of the following
_STUB = re.compile(
    rb"(?=(\xc0\x10(.{4})\xe3\x10\x10\0\0\x04"
    # br %r1; basr %r1, %r0; lgf %r1, 12(%r1); jg PLT0; .long offset of the relocation
    rb"(?:\x07\xf1\x0d\x10\xe3\x10\x10\x0c\0\x14\xc0\xf4.{8}"
    # mold: lgfi %r0, offset; br %r1
    rb"|\xc0\x01.{4}\x07\xf1(?:\x07\0){6}"
    # mold's .plt.got: br %r1; nopr. Without the filling it would be a tail call
    rb"|\x07\xf1\x07\0)))",
    re.DOTALL,
)
_MASK = (1 << 64) - 1


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    for match in _STUB.finditer(data):
        start = base + match.start()
        if start & 1:
            continue
        slot = start + 2 * int.from_bytes(match[2], "big", signed=True) & _MASK
        if slot in slots or is_plt:
            yield FoundStub(start, len(match[1]), slot, table.kind(code, slot))
