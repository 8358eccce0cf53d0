# SPDX-License-Identifier: Apache-2.0
"""The functions that instrumented code calls, and the files that call or define them."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.symbols.array import SymbolArray, static_table
from soscope.binfmt.elf.symbols.table import dynamic_table
from soscope.errors import FormatError
from soscope.model.filemap import FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# How a file was instrumented.
MCOUNT = "mcount"  # built with -pg
FENTRY = "fentry"  # built with -pg -mfentry
CYG = "cyg"  # built with -finstrument-functions or a related option
PATCHABLE = "patchable"  # built with -fpatchable-function-entry

BARE = "__cyg_profile_func_enter_bare"  # gets no arguments, and has no hook for exits
EXIT = "__cyg_profile_func_exit"

# Hooks that are called when a function is entered.
ENTRIES = {
    "mcount": MCOUNT,
    "_mcount": MCOUNT,
    "__gnu_mcount_nc": MCOUNT,  # on 32-bit ARM
    "__fentry__": FENTRY,
    "__cyg_profile_func_enter": CYG,
    BARE: CYG,
}


class ProfilingHooks:
    """The hooks of one file: name -> slots, and name -> addresses of the file's own hooks."""

    __slots__ = ("own", "slots")

    def __init__(self, mapped: ElfMap, tables: list[SymbolArray]) -> None:
        """Find the hooks among the slots and in the symbol tables."""
        self.slots: dict[str, list[FileSlot]] = {}
        for slot in mapped.slots:
            if slot.symbol in ENTRIES or slot.symbol == EXIT:
                self.slots.setdefault(slot.symbol, []).append(slot)
        self.own: dict[str, set[int]] = {}
        for table in tables:
            for name in (*ENTRIES, EXIT):
                for symbol in table.find(name):
                    if symbol.value and symbol.section != c.SHN_ABS:
                        self.own.setdefault(name, set()).add(symbol.value)


def symbol_tables(mapped: ElfMap) -> list[SymbolArray]:
    """Return .symtab and the dynamic symbols. `mapped.partial` notes unreadable tables."""
    image, tables = mapped.image, []
    readers: list[Callable[[], SymbolArray]] = [
        lambda: static_table(image.source, mapped.sections, image.encoding),
        lambda: dynamic_table(image),
    ]
    for read in readers:
        try:
            tables.append(read())
        except FormatError as error:
            mapped.partial.append(str(error))
    return tables
