# SPDX-License-Identifier: Apache-2.0
"""Relocations, as far as the names of what is imported need them."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import broken, take
from soscope.binfmt.elf.reader import ElfReader

_MAX_BYTES = 1 << 30


def _symbols_of(image: ElfReader, table: int, size: int, *, rela: bool) -> set[int]:
    """Return the symbol indices that the relocations of one table name."""
    at = image.locate_pointer(table)
    length = image.dynamic.get(size)
    if at is None or not length:
        return set()
    layout = image.encoding.rela if rela else image.encoding.rel
    if length > _MAX_BYTES:
        raise broken(image.source, "relocations", at, f"{length} bytes")
    data = take(image.source, at, length // layout.size * layout.size, "relocations")
    shift = 32 if image.encoding.bits == 64 else 8
    return {entry[1] >> shift for entry in layout.iter_unpack(data)} - {0}


def plt_symbols(image: ElfReader) -> set[int]:
    """Return the indices of the symbols that DT_JMPREL names: all of them are called."""
    rela = image.dynamic.get(c.DT_PLTREL) == c.DT_RELA
    return _symbols_of(image, c.DT_JMPREL, c.DT_PLTRELSZ, rela=rela)


def all_symbols(image: ElfReader) -> set[int]:
    """Return the indices of the symbols that any relocation names."""
    return (
        plt_symbols(image)
        | _symbols_of(image, c.DT_RELA, c.DT_RELASZ, rela=True)
        | _symbols_of(image, c.DT_REL, c.DT_RELSZ, rela=False)
    )
