# SPDX-License-Identifier: Apache-2.0
"""Find contradictions in the data that one image has about its own linking.

Three places tell a stub's symbol: the indirect symbol table's entry for the stub, the same
table's entry for the slot that the stub jumps through, and the record that binds the slot. A lazy
slot leads to a helper, which refers to the slot's record as well. At run time nothing compares
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from soscope.binfmt.macho import records as r
from soscope.binfmt.macho.bindcodes import binds
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.slots import Cell
from soscope.model.filemap import OBJC_STUB, UNBOUND, FileSlot, Stub

# Kinds of contradictions.
STUB_NAME = "stub-name"  # the stub's symbol differs from its slot's
SLOT_NAME = "slot-name"  # the slot's symbol in the indirect table differs from its record's
TWO_NAMES = "two-names"  # two records bind the slot, to different symbols
NO_CODE = "no-code"  # the stub has code of no known kind
NO_SLOT = "no-slot"  # the stub jumps through a word that nothing binds
NO_RECORD = "no-record"  # no record binds the slot, whatever the file has in it
LAZY_OFFSET = "lazy-offset"  # the helper passes the offset of another record
LAZY_SLOT = "lazy-slot"  # the helper passes the address of another slot
NO_HELPER = "no-helper"  # an unbound lazy slot does not lead to a helper
RECORD_ELSEWHERE = "record-elsewhere"  # a lazy record binds a word that is not a slot


class Disagreement(NamedTuple):
    """One contradiction; fields that do not matter for its kind are 0, "" or None.

    `by_stub` and `by_slot` are the names in the indirect symbol table, `bound` the names in the
    slot's records. `offset` is what the helper at `helper` passes on: the offset of a record, or
    the address of a slot. `expected` is what it should be. `offset_names` is the symbol that
    `offset` stands for, "" if it stands for none.
    """

    what: str
    stub: int
    slot: int
    by_stub: str = ""
    by_slot: str = ""
    bound: tuple[str, ...] = ()
    helper: int | None = None
    offset: int | None = None
    expected: int | None = None
    offset_names: str = ""


def disagreements(image: MachoMap) -> list[Disagreement]:
    """Return all contradictions in one image; a sound image has none."""
    slots = {slot.vaddr: slot for slot in image.slots}
    disagreements: list[Disagreement] = []
    for stub in image.stubs:
        disagreements += _of_stub(image, stub, slots.get(stub.slot))
    lazy = list(binds(image.image, r.LAZY_BIND, r.Ranges(None)))
    records = {bind.argument: bind.name for bind in lazy}
    for slot in image.slots:
        cell = image.cell(slot.vaddr)
        if cell is not None:
            disagreements += _of_slot(image, slot, cell)
            disagreements += _of_helper(image, slot, records, slots)
    for bind in lazy:
        if bind.vaddr not in slots:
            disagreements.append(Disagreement(RECORD_ELSEWHERE, 0, bind.vaddr, bound=(bind.name,)))
    return disagreements


def _of_stub(image: MachoMap, stub: Stub, slot: FileSlot | None) -> Iterator[Disagreement]:
    by_stub = image.stub_symbol(stub.vaddr)
    if not stub.slot:
        yield Disagreement(NO_CODE, stub.vaddr, 0, by_stub)
        return
    if slot is None:
        # An entry of a __jump_table that no symbol uses is no fault.
        if stub.slot != stub.vaddr or by_stub:
            yield Disagreement(NO_SLOT, stub.vaddr, stub.slot, by_stub)
        return
    if by_stub and slot.symbol and by_stub != slot.symbol and stub.kind != OBJC_STUB:
        cell = image.cell(slot.vaddr)
        bound = _bound(cell) if cell is not None else ()
        by_slot = _by_table(image, cell) if cell is not None else ""
        yield Disagreement(STUB_NAME, stub.vaddr, slot.vaddr, by_stub, by_slot, bound)


def _of_slot(image: MachoMap, slot: FileSlot, cell: Cell) -> Iterator[Disagreement]:
    bound = _bound(cell)
    by_slot = _by_table(image, cell)
    stub = slot.stubs[0].vaddr if slot.stubs else 0
    if len(bound) > 1:
        yield Disagreement(TWO_NAMES, stub, slot.vaddr, by_slot=by_slot, bound=bound)
    elif by_slot and bound and by_slot not in bound:
        yield Disagreement(SLOT_NAME, stub, slot.vaddr, by_slot=by_slot, bound=bound)
    is_empty = slot.stubs and not bound and slot.kind == r.REBASE and cell.target is None
    # The record that binds the slot may be among the data that could not be read.
    if is_empty or (slot.binding == UNBOUND and not image.partial):
        yield Disagreement(NO_RECORD, stub, slot.vaddr, by_slot=by_slot)


def _of_helper(
    image: MachoMap, slot: FileSlot, records: dict[int | None, str], slots: dict[int, FileSlot]
) -> Iterator[Disagreement]:
    """Compare what the slot's helper passes on with the slot's own record."""
    if slot.resolver_argument is None or slot.section is None:
        return
    stub = slot.stubs[0].vaddr if slot.stubs else 0
    helper = image.decoded.helper(slot.helper) if slot.helper is not None else None
    if slot.kind in (r.INDIRECT_SYMBOL, r.EXTERNAL_RELOCATION):
        # On ppc, all slots share one helper, which is a function. A __jump_table has none in the
        # file.
        if helper is not None and helper.slot is not None and helper.slot != slot.vaddr:
            other = slots.get(helper.slot)
            yield Disagreement(
                LAZY_SLOT,
                stub,
                slot.vaddr,
                helper=slot.helper,
                offset=helper.slot,
                expected=slot.vaddr,
                offset_names=other.symbol if other is not None else "",
            )
        return
    bound = (slot.symbol,)
    if helper is None or helper.offset is None:
        if slot.binding != "weak":
            yield Disagreement(NO_HELPER, stub, slot.vaddr, bound=bound, helper=slot.helper)
        return
    if helper.offset != slot.resolver_argument:
        yield Disagreement(
            LAZY_OFFSET,
            stub,
            slot.vaddr,
            bound=bound,
            helper=slot.helper,
            offset=helper.offset,
            expected=slot.resolver_argument,
            offset_names=records.get(helper.offset, ""),
        )


def _bound(cell: Cell) -> tuple[str, ...]:
    return tuple(dict.fromkeys(bind.name for bind in cell.records))


def _by_table(image: MachoMap, cell: Cell) -> str:
    return image.table.name(cell.row) if cell.row is not None else ""
