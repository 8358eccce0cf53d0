# SPDX-License-Identifier: Apache-2.0
"""Where code calls through slots: the one instruction of a stub that every call of it runs.

No stub's beginning will do, as some have two entrances, nor its symbol, as most files have none.
Each instruction set says in its `sites` where the instruction is, of a stub that was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa import part
from soscope.binfmt.stubs.finder import all_code
from soscope.model.filemap import MIPS_STUB, Stub

JUMP = "jump"  # what is left is to go where the slot says
CALL = "call"  # the same, and to come back behind it: that has to run
PASS = "pass"  # more is left: it has to run
ENTER = "enter"  # the same, and only then is all there that the function is passed


class SiteInStub(NamedTuple):
    """An instruction `offset` bytes behind the beginning of a stub. The rest as in `StubSite`."""

    offset: int
    way: str
    size: int = 4
    base: str = ""
    distance: int = 0


class StubSite(NamedTuple):
    """One instruction of `size` bytes at link-time address `vaddr`, for all calls of a slot.

    `slot` is the slot's link-time address, as far as the file tells it; 0: it does not. With a
    register `base`, the slot lies `distance` bytes behind what that holds there.
    """

    vaddr: int
    slot: int
    way: str
    size: int = 4
    base: str = ""
    distance: int = 0


def call_sites(mapped: ElfMap) -> Iterator[StubSite]:
    """Give the call sites of an image's slots: in stubs, and where code does without one.

    One may come twice; the first is right.
    """
    known = part(mapped.machine, "sites")
    if known is None:
        return
    order = mapped.image.encoding.order
    for slot in mapped.slots:
        for stub in slot.stubs:
            if stub.kind == MIPS_STUB:
                continue  # it is what an unbound slot leads to, and not the way there
            if stub.vaddr == slot.vaddr:  # code that the loader writes
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
    """Return slots that code may call through at places that are not among its call sites."""
    known, table = part(mapped.machine, "sites"), mapped.slot_table
    if table is None or known is None or not hasattr(known, "unclear"):
        return frozenset()
    return frozenset(slot for code in all_code(table) for slot in known.unclear(code, table))


def _code(mapped: ElfMap, stub: Stub) -> bytes:
    image = mapped.image
    return image.source.read(image.locate(stub.vaddr), stub.size)
