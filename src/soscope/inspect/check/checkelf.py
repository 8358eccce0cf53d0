# SPDX-License-Identifier: Apache-2.0
"""What does not fit together in the linking of an ELF file."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.fault import FAULT, Fault
from soscope.inspect.check.lazycode import argument_of
from soscope.model.filemap import CALL_STUB, LAZY, PLT, FileSlot


def check_elf(mapped: ElfMap) -> Iterator[Fault]:
    """Give the faults of one file."""
    by_argument: dict[int | None, FileSlot] = {
        slot.resolver_argument: slot for slot in mapped.slots if slot.resolver_argument is not None
    }
    # where all lazy slots lead to one place at first, that knows them otherwise
    helpers = {slot.helper for slot in mapped.slots if slot.binding == LAZY}
    is_shared = len(helpers) == 1
    for slot in mapped.slots:
        yield from _slot(mapped, slot, by_argument, is_shared=is_shared)
    names = {slot.vaddr: slot.symbol for slot in mapped.slots}
    for vaddr, symbol in mapped.filled_again:
        if symbol != names.get(vaddr):
            yield Fault(
                "bound-twice",
                FAULT,
                f"the slot at {vaddr:#x} is filled with {names.get(vaddr) or 'no symbol'}"
                f" and with {symbol or 'no symbol'}",
                vaddr,
                symbol,
            )
    for stub in mapped.stubs_without_slot:
        if stub.kind == CALL_STUB:
            continue  # it has a slot, but only its callers know which: `partial` says so
        yield Fault(
            "stub-without-slot",
            FAULT,
            f"the stub at {stub.vaddr:#x} leads through what no relocation fills",
            stub.vaddr,
        )


def _slot(
    mapped: ElfMap, slot: FileSlot, by_argument: dict[int | None, FileSlot], *, is_shared: bool
) -> Iterator[Fault]:
    is_call = slot.kind.endswith(("JUMP_SLOT", "JMP_SLOT"))
    arch = mapped.machine
    if is_call and not slot.stubs and arch is not None and arch.has_stub_each:
        yield Fault(
            "slot-without-stub",
            FAULT,
            f"nothing leads through the slot of {slot.symbol} at {slot.vaddr:#x}",
            slot.vaddr,
            slot.symbol,
        )
    if slot.binding != LAZY:
        return
    if slot.helper is None:
        if slot.offset is None:
            return  # the loader makes what it leads to
        yield Fault(
            "slot-leads-nowhere",
            FAULT,
            f"the slot of {slot.symbol} at {slot.vaddr:#x} is lazy, and leads to no code at first",
            slot.vaddr,
            slot.symbol,
        )
        return
    given = argument_of(mapped, slot)
    if given is not None and given != slot.resolver_argument:
        other = by_argument.get(given)
        whose = "that of no slot" if other is None else f"{other.symbol}'s"
        yield Fault(
            "wrong-argument",
            FAULT,
            f"the first call of {slot.symbol} gives the resolver {given}, {whose},"
            f" not {slot.resolver_argument}",
            slot.stubs[0].vaddr if slot.stubs else slot.vaddr,
            slot.symbol,
        )
        return
    own = [stub for stub in slot.stubs if stub.kind == PLT]
    if (
        arch is not None
        and arch.has_own_half
        and given is None
        and own
        and not any(stub.vaddr <= slot.helper < stub.vaddr + stub.size for stub in own)
        and not is_shared
    ):
        yield Fault(
            "slot-leads-elsewhere",
            FAULT,
            f"the slot of {slot.symbol} at {slot.vaddr:#x} leads to {slot.helper:#x} at first,"
            " which is not its stub's",
            slot.vaddr,
            slot.symbol,
        )
