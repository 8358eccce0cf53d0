# SPDX-License-Identifier: Apache-2.0
"""Find contradictions in an ELF file's data about its linking."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.fault import FAULT, Fault
from soscope.inspect.check.lazycode import argument_of
from soscope.model.filemap import CALL_STUB, LAZY, PLT, FileSlot

# tags that hold an address: gABI, "Dynamic Section", and glibc's elf/get-dynamic-info.h
_TABLES = {
    c.DT_HASH: "DT_HASH",
    c.DT_GNU_HASH: "DT_GNU_HASH",
    c.DT_STRTAB: "DT_STRTAB",
    c.DT_SYMTAB: "DT_SYMTAB",
    c.DT_VERSYM: "DT_VERSYM",
    c.DT_VERDEF: "DT_VERDEF",
    c.DT_VERNEED: "DT_VERNEED",
    c.DT_RELA: "DT_RELA",
    c.DT_REL: "DT_REL",
    c.DT_RELR: "DT_RELR",
    c.DT_JMPREL: "DT_JMPREL",
    c.DT_INIT: "DT_INIT",
    c.DT_FINI: "DT_FINI",
    c.DT_INIT_ARRAY: "DT_INIT_ARRAY",
    c.DT_FINI_ARRAY: "DT_FINI_ARRAY",
    c.DT_PREINIT_ARRAY: "DT_PREINIT_ARRAY",
}
# tags with the size of a table; a loader does not read a table of size 0
_SIZES = {
    c.DT_RELA: c.DT_RELASZ,
    c.DT_REL: c.DT_RELSZ,
    c.DT_RELR: c.DT_RELRSZ,
    c.DT_JMPREL: c.DT_PLTRELSZ,
    c.DT_INIT_ARRAY: c.DT_INIT_ARRAYSZ,
    c.DT_FINI_ARRAY: c.DT_FINI_ARRAYSZ,
    c.DT_PREINIT_ARRAY: c.DT_PREINIT_ARRAYSZ,
}


def check_elf(mapped: ElfMap) -> Iterator[Fault]:
    """Yield the faults of one file."""
    by_argument: dict[int | None, FileSlot] = {
        slot.resolver_argument: slot for slot in mapped.slots if slot.resolver_argument is not None
    }
    # if all lazy slots lead to one address at first, the resolver identifies them in another way
    helpers = {slot.helper for slot in mapped.slots if slot.binding == LAZY}
    is_shared = len(helpers) == 1
    for slot in mapped.slots:
        yield from _slot(mapped, slot, by_argument, is_shared=is_shared)
    yield from _tables(mapped)
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
            continue  # it has a slot that only its callers know; `partial` tells
        yield Fault(
            "stub-without-slot",
            FAULT,
            f"the stub at {stub.vaddr:#x} leads through what no relocation fills",
            stub.vaddr,
        )


def _tables(mapped: ElfMap) -> Iterator[Fault]:
    """Yield a fault for each table that a loader would read outside of the loaded segments."""
    loaded = [segment for segment in mapped.image.segments if segment.type == c.PT_LOAD]
    for tag, name in _TABLES.items():
        vaddr = mapped.tag(tag)
        if tag in _SIZES and mapped.tag(_SIZES[tag]) == 0:
            continue
        if tag == c.DT_HASH and mapped.tag(c.DT_GNU_HASH):
            continue  # it is for loaders that do not know the other table
        if vaddr and not any(0 <= vaddr - part.vaddr < part.memsz for part in loaded):
            yield Fault(
                "table-outside",
                FAULT,
                f"{name} is {vaddr:#x}, and no segment holds that address",
                vaddr,
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
            return  # the loader writes what it leads to
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
