# SPDX-License-Identifier: Apache-2.0
"""The relocations of an ELF image, and the slots that some of them fill."""

from __future__ import annotations

import sys

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.source import broken
from soscope.errors import FormatError
from soscope.model.arch import UNKNOWN, Arch, RelocationTypes, arch_of_process
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import TypeAlias


# Tables of relocations that the dynamic section lists: DT_JMPREL, DT_RELA and DT_REL.
#
# DT_RELA or DT_REL may contain the entries of DT_JMPREL, depending on the linker. Each entry is
# returned only once.

Table = tuple[int, int, bool, bool]  # start, end in the source, has it addends, is it DT_JMPREL
Say: TypeAlias = "Callable[[str], object]"

_MAX_BYTES = 1 << 30
_FEW = 1 << 15  # bytes; below that an array is not quicker
_MANY = 1 << 21  # bytes in all; above that importing numpy pays off
_unpacked = 0


def tables(image: ElfReader, say: Say | None = None) -> list[Table]:
    """Return the tables of relocations, DT_JMPREL first.

    A damaged table is reported to `say` and left out. Without `say`, it raises FormatError.
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
    """Return start and end of a table in the source, (0, 0) if there is none."""
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
    """Return the bytes of a table's complete entries, and the position of each in the source.

    With `kinds`, entries of other types may be left out, which is quicker. A table that is cut is
    reported to `say`; without `say`, it raises FormatError.
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
    """Return whether to use numpy: for few entries, importing it takes longer."""
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
    """Return (r_offset, symbol index) of each entry of a table. Raises FormatError."""
    coding = image.encoding
    shift = 32 if coding.bits == 64 else 8
    rows = (coding.rela if table[2] else coding.rel).iter_unpack(entries(image, table)[0])
    if coding.order == "<" and coding.bits == 64 and _has_split_info(image):
        # here r_info is not one number: the symbol's index comes first
        return [(row[0], row[1] & 0xFFFF_FFFF) for row in rows]
    return [(row[0], row[1] >> shift) for row in rows]


def _has_split_info(image: ElfReader) -> bool:
    arch = image.header.arch if image.header else None
    return arch is not None and arch.has_split_info


def plt_symbols(image: ElfReader) -> set[int]:
    """Return the indices of the symbols in DT_JMPREL; all of these symbols are called."""
    listed = [symbols_of(image, table) for table in tables(image) if table[3]]
    return {symbol for rows in listed for _, symbol in rows} - {0}


def all_symbols(image: ElfReader) -> set[int]:
    """Return the indices of the symbols in all relocations."""
    listed = [symbols_of(image, table) for table in tables(image)]
    return {symbol for rows in listed for _, symbol in rows} - {0}


# The relocations that fill slots: each gives a cell the address of a symbol.
#
# An image that calls functions through a symbol has a JUMP_SLOT for each, in DT_JMPREL. An image
# that loads their addresses, or was compiled with -fno-plt, has GLOB_DATs.

Row = tuple[int, int, int]  # r_offset, r_info, r_addend


class SlotRelocation(Record):
    """One relocation that fills a slot.

    `vaddr` is the slot's link-time address, `symbol` an index into DT_SYMTAB. `in_plt` is true
    for an entry of DT_JMPREL, `is_call` for a JUMP_SLOT. `at` is the position of the entry itself
    in the image's source.
    """

    vaddr: int
    symbol: int
    addend: int
    at: int
    in_plt: bool
    is_call: bool


def slot_relocations(image: ElfReader, arch: Arch | None = None) -> Iterator[SlotRelocation]:
    """Yield the JUMP_SLOT and GLOB_DAT relocations of an image, DT_JMPREL first.

    `arch` is its machine, for an image without a header. Raises FormatError if a table is cut.
    """
    types = _types(image, arch)
    yield from _typed(image, frozenset((types.jump_slot, types.glob_dat)) - {0}, types)


def copies_of(image: ElfReader, arch: Arch | None = None) -> list[SlotRelocation]:
    """Return the COPY relocations; `arch` as in `slot_relocations`. Raises FormatError."""
    types = _types(image, arch)
    return list(_typed(image, frozenset((types.copy,)) - {0}, types))


def ifuncs_of(image: ElfReader, arch: Arch | None = None) -> list[SlotRelocation]:
    """Return the IRELATIVE relocations; `arch` as in `slot_relocations`. Raises FormatError."""
    types = _types(image, arch)
    return list(_typed(image, types.irelative, types))


def _types(image: ElfReader, arch: Arch | None) -> RelocationTypes:
    """Return the relocation types of the image's machine; of this machine, if that is not known."""
    header = image.header
    if header is not None:
        arch = header.arch
    elif arch is None:
        arch = arch_of_process(0, image.encoding.bits)
    return UNKNOWN if arch is None else arch.relocations


def _typed(
    image: ElfReader, kinds: frozenset[int], types: RelocationTypes
) -> Iterator[SlotRelocation]:
    shift, mask = (32, 0xFFFFFFFF) if image.encoding.bits == 64 else (8, 0xFF)
    jump_slot = types.jump_slot
    for at, fields, in_plt in relocations(image, kinds):
        kind = fields[1] & mask
        if kind in kinds:
            yield SlotRelocation(
                fields[0],
                fields[1] >> shift,
                fields[2],
                at,
                in_plt=in_plt,
                is_call=kind == jump_slot,
            )


def relocations(
    image: ElfReader, kinds: frozenset[int] = frozenset()
) -> Iterator[tuple[int, Row, bool]]:
    """Yield (position in the source, (r_offset, r_info, r_addend), is it in DT_JMPREL) for each.

    Relocations of DT_REL get the addend 0, because the relocated word holds it. If an entry of
    DT_JMPREL lies within the other table, too, it comes once. With `kinds`, relocations of other
    types may be left out, which is quicker. Raises FormatError.
    """
    for table in tables(image):
        _, _, has_addend, in_plt = table
        layout = image.encoding.rela if has_addend else image.encoding.rel
        data, places = entries(image, table, kinds)
        for at, row in zip(places, layout.iter_unpack(data), strict=True):
            yield at, (row[0], row[1], row[2] if has_addend else 0), in_plt
