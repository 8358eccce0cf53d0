# SPDX-License-Identifier: Apache-2.0
"""The relocations that fill slots: which cell gets the address of which symbol.

For x86-64 and i386 (psABI, "Relocation Types"). An image that calls functions through a
symbol has a JUMP_SLOT for each, in DT_JMPREL; one that loads their addresses, or was compiled with
-fno-plt, has GLOB_DATs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import broken, take
from soscope.binfmt.elf.reader import ElfReader

R_X86_64_64 = 1
R_X86_64_COPY = 5
R_X86_64_GLOB_DAT = 6
R_X86_64_JUMP_SLOT = 7
R_X86_64_IRELATIVE = 37

_MAX_BYTES = 1 << 30
_MANY = 1 << 15  # bytes of relocations worth an array: nearly all of them are of other types

Row = tuple[int, int, int]  # r_offset, r_info, r_addend


class SlotRelocation:
    """One relocation that fills a slot.

    `vaddr` is the slot's link-time address, `symbol` an index into DT_SYMTAB. `in_plt` says
    whether it stands in DT_JMPREL; `at` is where the entry itself lies in the image's source.
    """

    __slots__ = ("addend", "at", "in_plt", "symbol", "type", "vaddr")

    def __init__(
        self, vaddr: int, kind: int, symbol: int, addend: int, at: int, *, in_plt: bool
    ) -> None:
        self.vaddr = vaddr
        self.type = kind
        self.symbol = symbol
        self.addend = addend
        self.at = at
        self.in_plt = in_plt


def slot_relocations(image: ElfReader) -> Iterator[SlotRelocation]:
    """Give the JUMP_SLOT and GLOB_DAT relocations of an x86 image, DT_JMPREL's first.

    Raises FormatError where a table is cut off.
    """
    # i386 has the same numbers
    yield from _typed(image, frozenset((R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT)))


def relocations_of(image: ElfReader, kind: int) -> list[SlotRelocation]:
    """Return the relocations of one type. Raises FormatError."""
    return list(_typed(image, frozenset((kind,))))


def _typed(image: ElfReader, kinds: frozenset[int]) -> Iterator[SlotRelocation]:
    shift, mask = (32, 0xFFFFFFFF) if image.encoding.bits == 64 else (8, 0xFF)
    for at, fields, in_plt in relocations(image, kinds):
        kind = fields[1] & mask
        if kind in kinds:
            yield SlotRelocation(fields[0], kind, fields[1] >> shift, fields[2], at, in_plt=in_plt)


def relocations(
    image: ElfReader, kinds: frozenset[int] = frozenset()
) -> Iterator[tuple[int, Row, bool]]:
    """Give (place in the source, (r_offset, r_info, r_addend), in DT_JMPREL) of each relocation.

    Those of DT_REL have the addend 0: it is where the relocation goes. An entry of DT_JMPREL
    that lies within the other table, too, is given once. With `kinds` others may be left
    out, which is quicker. Raises FormatError.
    """
    plt = _range(image, c.DT_JMPREL, c.DT_PLTRELSZ)
    has_addend = image.dynamic.get(c.DT_PLTREL) != c.DT_REL
    for at, row in _rows(image, *plt, kinds, has_addend=has_addend):
        yield at, row, True
    for table, size in ((c.DT_RELA, c.DT_RELASZ), (c.DT_REL, c.DT_RELSZ)):
        where = _range(image, table, size)
        for at, row in _rows(image, *where, kinds, has_addend=table == c.DT_RELA):
            if not plt[0] <= at < plt[1]:
                yield at, row, False


def _range(image: ElfReader, table: int, size: int) -> tuple[int, int]:
    """Return start and end of a table in the source, (0, 0) where there is none."""
    at = image.locate_pointer(table)
    length = image.dynamic.get(size)
    if at is None or not length:
        return 0, 0
    if length > _MAX_BYTES:
        raise broken(image.source, "relocations", at, f"{length} bytes")
    return at, at + length


def _rows(
    image: ElfReader, start: int, end: int, kinds: frozenset[int], *, has_addend: bool
) -> Iterator[tuple[int, Row]]:
    layout = image.encoding.rela if has_addend else image.encoding.rel
    size = (end - start) // layout.size * layout.size
    if not size:
        return
    data = take(image.source, start, size, "relocations")
    places: Iterable[int] = range(start, start + size, layout.size)
    if kinds and size > _MANY and image.encoding.order == "<":
        data, places = _picked(data, start, layout.size, image.encoding.bits, kinds)
    for at, row in zip(places, layout.iter_unpack(data), strict=True):
        yield at, (row[0], row[1], row[2] if has_addend else 0)


def _picked(
    data: bytes, start: int, step: int, bits: int, kinds: frozenset[int]
) -> tuple[bytes, list[int]]:
    """Return the entries of the wanted types alone, and where each of them lies."""
    import numpy as np

    words = np.frombuffer(data, dtype=f"<u{bits // 8}").reshape(-1, step // (bits // 8))
    types = words[:, 1] & (0xFFFFFFFF if bits == 64 else 0xFF)
    chosen = np.flatnonzero(np.isin(types, list(kinds)))
    return words[chosen].tobytes(), [start + int(index) * step for index in chosen]
