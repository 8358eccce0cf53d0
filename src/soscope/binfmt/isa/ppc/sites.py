# SPDX-License-Identifier: Apache-2.0
"""Call sites in stubs of PowerPC: the `mtctr` behind the load of the slot.

Behind it a stub may branch. A 64-bit stub may be entered behind its first instruction. A stub of
ELFv1 leaves by one of two branches, depending on whether the slot is filled. soscope skips what
follows the `mtctr`, unless it is a call: such a stub saves the return address
(__tls_get_addr_opt).
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.isa.ppc import stubs64
from soscope.binfmt.isa.ppc.pic import shapes
from soscope.binfmt.stubs.sites import CALL, JUMP, PASS, SiteInStub, StubSite
from soscope.binfmt.stubs.table import Code, SlotTable
from soscope.binfmt.stubs.words import big_endian

_MTCTR = (b"\x7d\x89\x03\xa6", b"\x7d\x69\x03\xa6")  # mtctr of r12, r11
_BCTRL = b"\x4e\x80\x04\x21"
_BASE = "r30"


def place(code: bytes, order: str) -> SiteInStub:
    """Return the call site in a stub: the instruction that all its calls run."""
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
    """Yield the call sites in code that loads slots without a stub; those in stubs come, too.

    On 32 bits there are none, because such code calls through other slots.
    """
    if table.image.encoding.bits == 64:
        for vaddr, size, slot in stubs64.in_place(code, table):
            yield StubSite(vaddr, slot, CALL, size) if size else StubSite(vaddr, slot, JUMP)
