# SPDX-License-Identifier: Apache-2.0
"""Relocations that fill slots, by the relocation types of each processor."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, repeat
from typing import NamedTuple

from soscope.binfmt.elf.encoding import Encoding
from soscope.model.arch import Arch


class Filled(NamedTuple):
    """One relocation that fills a slot: its type `kind`, its index in DT_JMPREL or -1, `place`.

    `addend` is the entry's addend, 0 if the slot itself holds it. For a slot that no relocation
    fills, `kind` is one of Arch's `implied`, and `place` is the argument of the lazy resolver, or
    -1.
    """

    vaddr: int
    kind: int
    symbol: int
    addend: int
    place: int


def filled_by(
    arch: Arch, coding: Encoding, data: bytes, *, has_addend: bool, in_plt: bool
) -> list[Filled]:
    """Return the relocations in `data` whose types fill slots."""
    layout = coding.rela if has_addend else coding.rel
    shift, mask = (32, 0xFFFF_FFFF) if coding.bits == 64 else (8, 0xFF)
    types = arch.relocations.types
    rows: Iterable[tuple[int, ...]] = layout.iter_unpack(data)
    if arch.has_split_info:
        mask = 0xFF
        if coding.order == "<":
            rows = map(_n64_row, rows)
    if not has_addend:
        rows = ((*row, 0) for row in rows)
    places: Iterable[int] = count() if in_plt else repeat(-1)
    new = tuple.__new__  # quicker, as there may be 100,000 of them
    return [
        new(Filled, (vaddr, info & mask, info >> shift, addend, place))
        for place, (vaddr, info, addend) in zip(places, rows, strict=False)
        if info & mask in types
    ]


def _n64_row(row: tuple[int, ...]) -> tuple[int, ...]:
    """Bring r_info of little-endian 64-bit MIPS into the usual order.

    There it is not one number but a 32-bit symbol and four bytes, of which the last is the type.
    """
    return row[0], (row[1] & 0xFFFF_FFFF) << 32 | row[1] >> 56, *row[2:]
