# SPDX-License-Identifier: Apache-2.0
"""The relocations that fill slots: each gives a cell the address of a symbol.

An image that calls functions through a symbol has a JUMP_SLOT for each, in DT_JMPREL. An image
that loads their addresses, or was compiled with -fno-plt, has GLOB_DATs.
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.relocations import entries, tables
from soscope.model.arch import UNKNOWN, Arch, RelocationTypes, arch_of_process

Row = tuple[int, int, int]  # r_offset, r_info, r_addend


class SlotRelocation:
    """One relocation that fills a slot.

    `vaddr` is the slot's link-time address, `symbol` an index into DT_SYMTAB. `in_plt` is true
    for an entry of DT_JMPREL, `is_call` for a JUMP_SLOT. `at` is the position of the entry itself
    in the image's source.
    """

    __slots__ = ("addend", "at", "in_plt", "is_call", "symbol", "vaddr")

    def __init__(
        self,
        vaddr: int,
        symbol: int,
        addend: int,
        at: int,
        *,
        in_plt: bool,
        is_call: bool,
    ) -> None:
        self.vaddr = vaddr
        self.symbol = symbol
        self.addend = addend
        self.at = at
        self.in_plt = in_plt
        self.is_call = is_call


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
