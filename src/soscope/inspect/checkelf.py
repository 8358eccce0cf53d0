# SPDX-License-Identifier: Apache-2.0
"""What does not fit together in the linking of an ELF file."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.fault import FAULT, Fault
from soscope.inspect.lazycode import argument_of
from soscope.model.filemap import CALL_STUB, LAZY, PLT, Slot

_HAS_STUBS = ("x86-64", "i386", "aarch64", "arm", "riscv64", "s390x")  # one for each JUMP_SLOT


def check_elf(found: ElfMap) -> Iterator[Fault]:
    """Give the faults of one file."""
    by_argument: dict[int | None, Slot] = {
        one.resolver_argument: one for one in found.slots if one.resolver_argument is not None
    }
    # where all lazy slots lead to one place at first, that knows them otherwise
    helpers = {one.helper for one in found.slots if one.binding == LAZY}
    is_shared = len(helpers) == 1
    for slot in found.slots:
        yield from _slot(found, slot, by_argument, is_shared=is_shared)
    names = {one.vaddr: one.symbol for one in found.slots}
    for vaddr, symbol in found.filled_again:
        if symbol != names.get(vaddr):
            yield Fault(
                "bound-twice",
                FAULT,
                f"the slot at {vaddr:#x} is filled with {names.get(vaddr) or 'no symbol'}"
                f" and with {symbol or 'no symbol'}",
                vaddr,
                symbol,
            )
    for stub in found.stubs_without_slot:
        if stub.kind == CALL_STUB:
            continue  # it has a slot, but only its callers know which: `partial` says so
        yield Fault(
            "stub-without-slot",
            FAULT,
            f"the stub at {stub.vaddr:#x} leads through what no relocation fills",
            stub.vaddr,
        )


def _slot(
    found: ElfMap, slot: Slot, by_argument: dict[int | None, Slot], *, is_shared: bool
) -> Iterator[Fault]:
    is_call = slot.kind.endswith(("JUMP_SLOT", "JMP_SLOT"))
    if is_call and not slot.stubs and found.arch in _HAS_STUBS:
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
    given = argument_of(found, slot)
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
    own = [one for one in slot.stubs if one.kind == PLT]
    if (
        found.arch in ("x86-64", "i386")
        and given is None
        and own
        and not any(one.vaddr <= slot.helper < one.vaddr + one.size for one in own)
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
