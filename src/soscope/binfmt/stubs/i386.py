# SPDX-License-Identifier: Apache-2.0
"""Stubs on i386, by the forms of x86_code.py."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.stubs import x86_code
from soscope.binfmt.stubs.table import Code, Found, SlotTable
from soscope.binfmt.stubs.x86_64 import named

PLACES = (".plt", ".iplt")


def find(code: Code, table: SlotTable) -> Iterator[Found]:
    """Give the stubs in a stretch of code."""
    if table.base is None:
        table.base = x86_code.told_got(code.data, table.calls)
        if table.base is None and code.section is None:  # there are functions in it
            table.base = x86_code.loaded_got(code.data, code.vaddr)
    got = table.base
    if got is None:
        got = x86_code.fitting_got(code.data, table.slots, table.bases)
    is_plt = code.section is not None
    origin = code.vaddr if is_plt else 0
    rows = x86_code.stubs_32(code.data, code.vaddr, table.slots, origin, got, is_plt=is_plt)
    return named(rows, code.section, table)
