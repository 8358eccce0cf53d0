# SPDX-License-Identifier: Apache-2.0
"""The functions that compilers have instrumented code call, and which file calls or has them."""

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

# how a file was instrumented
MCOUNT = "mcount"  # -pg
FENTRY = "fentry"  # -pg -mfentry
CYG = "cyg"  # -finstrument-functions and its relatives
PATCHABLE = "patchable"  # -fpatchable-function-entry

BARE = "__cyg_profile_func_enter_bare"  # it is told nothing, and has no counterpart
EXIT = "__cyg_profile_func_exit"

# the hooks that are called when a function is entered
ENTRIES = {
    "mcount": MCOUNT,
    "_mcount": MCOUNT,
    "__gnu_mcount_nc": MCOUNT,  # 32-bit ARM
    "__fentry__": FENTRY,
    "__cyg_profile_func_enter": CYG,
    BARE: CYG,
}


class ProfilingHooks:
    """The hooks of one file: name -> its slots, and name -> the addresses where it has its own."""

    __slots__ = ("own", "slots")

    def __init__(self, mapped: ElfMap, tables: list[SymbolArray]) -> None:
        """Find them among the slots and in the tables of symbols."""
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
    """Return .symtab and the dynamic symbols; `mapped.partial` says which cannot be read."""
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
