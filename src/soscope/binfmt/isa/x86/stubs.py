# SPDX-License-Identifier: Apache-2.0
"""Stubs on x86-64 (with x32) and i386, by the forms in shapes.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from soscope.binfmt.isa.x86 import shapes
from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.model.arch import EM_386, Arch
from soscope.model.filemap import IPLT, PLT, PLT_GOT, PLT_SEC, RETPOLINE

_PLACES = (".plt", ".iplt")


def decoder(arch: Arch) -> Decoder:
    """Return the decoder of stubs for x86-64, x32 or i386."""
    return Decoder(_find_32 if arch.number == EM_386 else _find_64, _PLACES)


def _find_64(code: Code, table: SlotTable) -> Iterable[FoundStub]:
    """Yield the stubs in a range of code."""
    is_plt = code.section is not None
    if is_plt:
        regular = shapes.regular_64(code.data, code.vaddr)
        if regular is not None:
            pairs, form = regular
            kind = PLT if form == shapes.LAZY else _kind(code.section) or PLT
            is_ifunc, new = table.slots.get, tuple.__new__
            return [
                new(FoundStub, (vaddr, shapes.SIZE, slot, IPLT if is_ifunc(slot) else kind))
                for vaddr, slot in pairs
            ]
    origin = code.vaddr if is_plt else 0
    rows = shapes.stubs_64(code.data, code.vaddr, table.slots, origin, is_plt=is_plt)
    return _named(rows, code.section, table)


def _find_32(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    if table.base is None:
        table.base = shapes.told_got(code.data, table.calls)
        if table.base is None and code.section is None:  # the code may contain functions
            table.base = shapes.loaded_got(code.data, code.vaddr)
    got = table.base
    if got is None:
        got = shapes.fitting_got(code.data, table.slots, table.bases)
    is_plt = code.section is not None
    origin = code.vaddr if is_plt else 0
    rows = shapes.stubs_32(code.data, code.vaddr, table.slots, origin, got, is_plt=is_plt)
    return _named(rows, code.section, table)


def _named(
    rows: Iterator[shapes.Row], section: str | None, table: SlotTable
) -> Iterator[FoundStub]:
    """Yield stubs with the kinds of model/filemap.py, by their form and section."""
    is_ifunc, default = table.slots, _kind(section)
    for vaddr, size, slot, form in rows:
        if form == shapes.RETURN:
            kind = RETPOLINE
        elif is_ifunc.get(slot):
            kind = IPLT
        elif form == shapes.LAZY:
            kind = PLT
        else:
            kind = default or (PLT_GOT if form == shapes.SHORT else PLT_SEC)
        yield FoundStub(vaddr, size, slot, kind)


def _kind(section: str | None) -> str | None:
    """Return the kind of a section's stubs without a lazy half, None if it is not known."""
    if section is None:
        return None
    if section.startswith(".plt.got"):
        return PLT_GOT
    return PLT_SEC if section.startswith((".plt.sec", ".plt.bnd")) else PLT
