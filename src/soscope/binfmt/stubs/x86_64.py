# SPDX-License-Identifier: Apache-2.0
"""Stubs on x86-64, x32 included, by the forms of x86_code.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from soscope.binfmt.stubs import x86_code
from soscope.binfmt.stubs.table import Code, Found, SlotTable
from soscope.model.filemap import IPLT, PLT, PLT_GOT, PLT_SEC, RETPOLINE

PLACES = (".plt", ".iplt")


def find(code: Code, table: SlotTable) -> Iterable[Found]:
    """Give the stubs in a stretch of code."""
    is_plt = code.section is not None
    if is_plt:
        regular = x86_code.regular_64(code.data, code.vaddr)
        if regular is not None:
            pairs, form = regular
            kind = PLT if form == x86_code.LAZY else _kind(code.section) or PLT
            is_ifunc, new = table.slots.get, tuple.__new__
            return [
                new(Found, (vaddr, x86_code.SIZE, slot, IPLT if is_ifunc(slot) else kind))
                for vaddr, slot in pairs
            ]
    origin = code.vaddr if is_plt else 0
    rows = x86_code.stubs_64(code.data, code.vaddr, table.slots, origin, is_plt=is_plt)
    return named(rows, code.section, table)


def named(rows: Iterator[x86_code.Row], section: str | None, table: SlotTable) -> Iterator[Found]:
    """Give stubs the kinds of model/filemap.py, by their form and their section."""
    is_ifunc, default = table.slots, _kind(section)
    for vaddr, size, slot, form in rows:
        if form == x86_code.RETURN:
            kind = RETPOLINE
        elif is_ifunc.get(slot):
            kind = IPLT
        elif form == x86_code.LAZY:
            kind = PLT
        else:
            kind = default or (PLT_GOT if form == x86_code.SHORT else PLT_SEC)
        yield Found(vaddr, size, slot, kind)


def _kind(section: str | None) -> str | None:
    """Return what stubs without a lazy half are in a section, None where that is not known."""
    if section is None:
        return None
    if section.startswith(".plt.got"):
        return PLT_GOT
    return PLT_SEC if section.startswith((".plt.sec", ".plt.bnd")) else PLT
