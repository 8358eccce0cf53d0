# SPDX-License-Identifier: Apache-2.0
"""Tables of relocations, as the dynamic section tells them: DT_JMPREL, DT_RELA and DT_REL.

Linkers let DT_RELA or DT_REL contain DT_JMPREL's entries, or not; nobody gets one twice here.
"""

from __future__ import annotations

import sys

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypeAlias

Table = tuple[int, int, bool, bool]  # start and end in the source, with addends?, DT_JMPREL?
Say: TypeAlias = "Callable[[str], object]"

_MAX_BYTES = 1 << 30
_FEW = 1 << 15  # bytes that no array makes quicker
_MANY = 1 << 21  # bytes in all, from which on importing numpy takes less time than doing without
_unpacked = 0


def tables(image: ElfReader, say: Say | None = None) -> list[Table]:
    """Return where relocations lie, DT_JMPREL first.

    What is wrong is told to `say`, and that table left out; without `say` it is raised as
    FormatError.
    """
    has_addend = image.dynamic.get(c.DT_PLTREL) != c.DT_REL
    start, end = _range(image, c.DT_JMPREL, c.DT_PLTRELSZ, say)
    stretches = [(start, end, has_addend, True)]
    for tag, size in ((c.DT_RELA, c.DT_RELASZ), (c.DT_REL, c.DT_RELSZ)):
        first, last = _range(image, tag, size, say)
        if first < end and start < last:
            stretches.append((first, start, tag == c.DT_RELA, False))
            first = end
        stretches.append((first, last, tag == c.DT_RELA, False))
    return [table for table in stretches if table[0] < table[1]]


def _range(image: ElfReader, tag: int, size: int, say: Say | None) -> tuple[int, int]:
    """Return start and end of a table in the source, (0, 0) where there is none."""
    length = image.dynamic.get(size)
    if not length:
        return 0, 0
    try:
        at = image.locate_pointer(tag)
        if at is None:
            return 0, 0
        if length > _MAX_BYTES:
            raise broken(image.source, "relocations", at, f"{length} bytes")
    except FormatError as error:
        if say is None:
            raise
        say(str(error))
        return 0, 0
    return at, at + length


def entries(
    image: ElfReader, table: Table, kinds: Collection[int] = (), say: Say | None = None
) -> tuple[bytes, list[int] | range]:
    """Return the whole entries of a table, and where each of them lies in the source.

    With `kinds` those of other types may be left out, which is quicker. What is cut off is told
    to `say`, without it raised as FormatError.
    """
    start, end, has_addend, _ = table
    layout = image.encoding.rela if has_addend else image.encoding.rel
    step = layout.size
    size = (end - start) // step * step
    data = image.source.read(start, size)
    if len(data) < size:
        error = broken(
            image.source, "relocations", start, f"{size} bytes expected, {len(data)} found"
        )
        if say is None:
            raise error
        say(str(error))
        data = data[: len(data) // step * step]
    if kinds and len(data) > _FEW and _are_many(len(data)):
        return _picked(data, start, step, image, kinds)
    return data, range(start, start + len(data), step)


def _are_many(size: int) -> bool:
    """Return whether it is time for arrays: the entries of one file are soon unpacked."""
    global _unpacked  # noqa: PLW0603  what all files together have cost so far
    if "numpy" in sys.modules:
        return True
    _unpacked += size
    return _unpacked > _MANY


def _picked(
    data: bytes, start: int, step: int, image: ElfReader, kinds: Collection[int]
) -> tuple[bytes, list[int]]:
    import numpy as np

    bits, order = image.encoding.bits, image.encoding.order
    words = np.frombuffer(data, dtype=f"{order}u{bits // 8}").reshape(-1, step // (bits // 8))
    types = words[:, 1] & (0xFFFF_FFFF if bits == 64 else 0xFF)
    chosen = np.flatnonzero(np.isin(types, list(kinds)))
    return words[chosen].tobytes(), [start + index * step for index in chosen.tolist()]


def symbols_of(image: ElfReader, table: Table) -> list[tuple[int, int]]:
    """Return (r_offset, index of the symbol) of each entry of a table. Raises FormatError."""
    coding = image.encoding
    shift = 32 if coding.bits == 64 else 8
    rows = (coding.rela if table[2] else coding.rel).iter_unpack(entries(image, table)[0])
    if coding.order == "<" and coding.bits == 64 and _has_split_info(image):
        # r_info is no number there: the symbol's index comes first
        return [(row[0], row[1] & 0xFFFF_FFFF) for row in rows]
    return [(row[0], row[1] >> shift) for row in rows]


def _has_split_info(image: ElfReader) -> bool:
    arch = image.header.arch if image.header else None
    return arch is not None and arch.has_split_info


def plt_symbols(image: ElfReader) -> set[int]:
    """Return the indices of the symbols that DT_JMPREL names: all of them are called."""
    listed = [symbols_of(image, table) for table in tables(image) if table[3]]
    return {symbol for rows in listed for _, symbol in rows} - {0}


def all_symbols(image: ElfReader) -> set[int]:
    """Return the indices of the symbols that any relocation names."""
    listed = [symbols_of(image, table) for table in tables(image)]
    return {symbol for rows in listed for _, symbol in rows} - {0}
