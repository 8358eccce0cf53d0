# SPDX-License-Identifier: Apache-2.0
"""Find units of DWARF 5 that give names by an index into .debug_str_offsets, as clang's do.

An index has a byte or two, and such bytes are everywhere. So the offset of the name leads only to
the units that may use it, and their entries are all read. DWARF 5, 7.26.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from soscope.binfmt.search import places_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_U32 = Struct("<I")
_HEADER = 8
_VERSION = 5
_MOST = 1 << 20  # tables (contributions) of the section, at most


def tables_with(string_offsets: bytes, offsets: Iterable[int]) -> set[int]:
    """Return the bases (DW_AT_str_offsets_base) of the tables that have one of these offsets.

    `string_offsets` is the contents of .debug_str_offsets, `offsets` are offsets of names in
    .debug_str.
    """
    bases = _bases(string_offsets)
    needles = {_U32.pack(offset): b"" for offset in offsets}
    if not bases or not needles:
        return set()
    tables = set()
    for place, _ in places_of(string_offsets, needles):
        base = bases[max(bisect_right(bases, place) - 1, 0)]
        if place >= base and (place - base) % 4 == 0:
            tables.add(base)
    return tables


def _bases(data: bytes) -> list[int]:
    bases: list[int] = []
    at = 0
    while at + _HEADER <= len(data) and len(bases) < _MOST:
        length, version = _U32.unpack_from(data, at)[0], data[at + 4]
        if version != _VERSION or not 4 <= length <= len(data) - at - 4:
            break  # 64-bit DWARF, or damaged
        bases.append(at + _HEADER)
        at += 4 + length
    return bases
