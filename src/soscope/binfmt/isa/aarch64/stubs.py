# SPDX-License-Identifier: Apache-2.0
"""Stubs on aarch64, as GNU ld, gold, LLD and mold write them: with BTI, with PAC, with both.

ELF for the Arm 64-bit Architecture, "Program Linkage". A stub addresses its slot by its page and
the offset in the page. LLD writes `bti c` only into stubs whose address is taken, so that stubs
of both kinds, with the same size, lie side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.model.arch import Arch

_PLACES = (".plt", ".iplt")

# [bti c] adrp x16, page; ldr x17, [x16, #offset]; [add x16, x16, #offset]; [autia1716]; br x17 or
# braa x17, x16. The 32-bit registers are used in ILP32.
_STUB = re.compile(
    rb"(?=((?:\x5f\x24\x03\xd5)?"
    rb"([\x10\x30\x50\x70\x90\xb0\xd0\xf0]..[\x90\xb0\xd0\xf0])"
    rb"(\x11.[\x40-\x7f][\xf9\xb9])"
    rb"(\x10.[\0-\x3f][\x91\x11])?"
    rb"(?:\x9f\x21\x03\xd5)?"
    rb"(?:\x20\x02\x1f\xd6|\x30\x0a\x1f\xd7)))",
    re.DOTALL,
)
_NOP = b"\x1f\x20\x03\xd5"
_FIRST = b"\xf0\x7b\xbf\xa9"  # stp x16, x30, [sp, #-16]!: the first stub, which calls the loader
_SIZES = (16, 24, 32)


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    from_bytes = int.from_bytes
    last = -1
    for match in _STUB.finditer(data):
        at = match.start()
        start = base + at
        if start & 3 or match.end(1) == last:
            continue
        load = from_bytes(match[3], "little")
        if load >> 5 & 31 != 16:
            continue
        page = from_bytes(match[2], "little")
        pages = (page >> 5 & 0x7FFFF) << 2 | page >> 29 & 3
        pages -= (pages & 1 << 20) << 1
        where = base + match.start(2)
        scale = load >> 30  # 2 or 3, for 4 or 8 bytes
        slot = (where & ~0xFFF) + (pages << 12) + ((load >> 10 & 0xFFF) << scale)
        if slot not in slots and (not is_plt or data[at - 4 : at] == _FIRST):
            continue
        last = match.end(1)
        if not is_plt and match[4] is None and data[last : last + 4] != _NOP:
            continue  # it is a tail call
        yield FoundStub(start, _size(data, at, last), slot, table.kind(code, slot))


def _size(data: bytes, at: int, end: int) -> int:
    """Return the size of a stub with the nops that fill it up."""
    while data[end : end + 4] == _NOP and end - at not in _SIZES:
        end += 4
    if end - at == _SIZES[0] and data[end : end + 8] == _NOP + _NOP:
        end += 8  # next to stubs with `bti c`
    return end - at
