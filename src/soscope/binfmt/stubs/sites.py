# SPDX-License-Identifier: Apache-2.0
"""Call sites: the one instruction of a stub that every call through it runs.

The first instruction of a stub is not suitable, because some stubs have two entry points. Symbols
of stubs are not suitable, because most files have none. The module `sites` of each instruction
set finds the instruction in a stub.
"""

from __future__ import annotations

from typing import NamedTuple

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part
from soscope.binfmt.stubs.finder import all_code
from soscope.model.filemap import MIPS_STUB, Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

JUMP = "jump"  # it jumps to the address in the slot
CALL = "call"  # it calls that address, so it must run itself
PASS = "pass"  # more instructions follow, so it must run itself
ENTER = "enter"  # as PASS; all arguments are set only after it


class SiteInStub(NamedTuple):
    """An instruction `offset` bytes behind the start of a stub; other fields as in `StubSite`."""

    offset: int
    way: str
    size: int = 4
    base: str = ""
    distance: int = 0


class StubSite(NamedTuple):
    """One instruction of `size` bytes at link-time address `vaddr`, which all calls of a slot run.

    `slot` is the slot's link-time address, 0 if the file does not tell it. If there is a register
    `base`, the slot lies `distance` bytes behind the address in that register.
    """

    vaddr: int
    slot: int
    way: str
    size: int = 4
    base: str = ""
    distance: int = 0


def call_sites(mapped: ElfMap) -> Iterator[StubSite]:
    """Yield the call sites of an image's slots, in stubs and in code that calls without one.

    A call site may come twice. Then the first one is right.
    """
    known = part(mapped.machine, "sites")
    if known is None:
        return
    order = mapped.image.encoding.order
    for slot in mapped.slots:
        for stub in slot.stubs:
            if stub.kind == MIPS_STUB:
                continue  # an unbound slot leads to this code, which is not a stub
            if stub.vaddr == slot.vaddr:  # code written by the loader
                yield StubSite(stub.vaddr, slot.vaddr, PASS)
                continue
            offset, way, size, base, distance = known.place(_code(mapped, stub), order)
            yield StubSite(stub.vaddr + offset, slot.vaddr, way, size, base, distance)
    for stub in mapped.stubs_without_slot:
        offset, way, size, base, distance = known.place(_code(mapped, stub), order)
        if base:
            yield StubSite(stub.vaddr + offset, 0, way, size, base, distance)
    table = mapped.slot_table
    if table is not None and hasattr(known, "in_place"):
        for code in all_code(table):
            yield from known.in_place(code, table)


def unclear_slots(mapped: ElfMap) -> frozenset[int]:
    """Return slots that code may call through at addresses that are not call sites."""
    known, table = part(mapped.machine, "sites"), mapped.slot_table
    if table is None or known is None or not hasattr(known, "unclear"):
        return frozenset()
    return frozenset(slot for code in all_code(table) for slot in known.unclear(code, table))


def _code(mapped: ElfMap, stub: Stub) -> bytes:
    image = mapped.image
    return image.source.read(image.locate(stub.vaddr), stub.size)
