# SPDX-License-Identifier: Apache-2.0
"""Stubs on RISC-V, 32 and 64 bits, as GNU ld, LLD and mold write them; all have one form.

RISC-V ELF psABI, "Procedure Linkage Table". A stub addresses its slot by the distance from its
own first instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.model.arch import Arch

_PLACES = (".plt", ".iplt")

# [lpad 0] auipc t3, high; ld (or lw) t3, low(t3); jalr t1, t3; [nop]
_STUB = re.compile(
    rb"(?=((?:\x17\0{3})?"
    rb"(\x17[\x0e\x1e\x2e\x3e\x4e\x5e\x6e\x7e\x8e\x9e\xae\xbe\xce\xde\xee\xfe]..)"
    rb"(\x03[\x2e\x3e][\x0e\x1e\x2e\x3e\x4e\x5e\x6e\x7e\x8e\x9e\xae\xbe\xce\xde\xee\xfe].)"
    rb"\x67\x03\x0e\0(?:\x13\0{3})?))",
    re.DOTALL,
)


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    mask = (1 << table.image.encoding.bits) - 1
    last = -1
    for match in _STUB.finditer(data):
        start = base + match.start()
        if start & 3 or match.end(1) == last:
            continue
        high = int.from_bytes(match[2], "little", signed=True) & ~0xFFF
        low = int.from_bytes(match[3], "little", signed=True) >> 20
        slot = base + match.start(2) + high + low & mask
        if slot in slots or is_plt:
            last = match.end(1)
            yield FoundStub(start, last - match.start(), slot, table.kind(code, slot))
