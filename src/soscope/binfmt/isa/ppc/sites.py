# SPDX-License-Identifier: Apache-2.0
"""Where stubs of PowerPC have loaded their slot: at `mtctr`, behind which they may part.

A stub of 64 bits may be entered behind its first instruction, and that of ELFv1 leaves by one of
two branches, according to whether the slot is filled. What stands behind is to be left out,
unless it is a call: that stub keeps the return address (__tls_get_addr_opt).
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.isa.ppc import stubs64
from soscope.binfmt.isa.ppc.pic import shapes
from soscope.binfmt.stubs.sites import CALL, JUMP, PASS, SiteInStub, StubSite
from soscope.binfmt.stubs.table import Code, SlotTable
from soscope.binfmt.stubs.words import big_endian

_MTCTR = (b"\x7d\x89\x03\xa6", b"\x7d\x69\x03\xa6")  # of r12, r11
_BCTRL = b"\x4e\x80\x04\x21"
_BASE = "r30"


def place(code: bytes, order: str) -> SiteInStub:
    """Return where a stub has its call site."""
    code = big_endian(code, order)
    at = max(map(code.rfind, _MTCTR))
    if at < 0 or at & 3:
        return SiteInStub(0, PASS)
    if code.find(_BCTRL, at) >= 0:
        return SiteInStub(at, PASS)
    shape = next(iter(shapes(code)), None)
    if shape is not None:
        return SiteInStub(at, JUMP, base=_BASE, distance=shape[2])
    return SiteInStub(at, JUMP)


def in_place(code: Code, table: SlotTable) -> Iterator[StubSite]:
    """Give the call sites in code that loads slots without a stub, and those in stubs again.

    On 32 bits there are none: such code calls through other slots.
    """
    if table.image.encoding.bits == 64:
        for vaddr, size, slot in stubs64.in_place(code, table):
            yield StubSite(vaddr, slot, CALL, size) if size else StubSite(vaddr, slot, JUMP)
