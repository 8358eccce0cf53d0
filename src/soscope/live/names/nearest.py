# SPDX-License-Identifier: Apache-2.0
"""Find the symbols that contain a few addresses, in an image with few symbols.

Symbols are sorted only by their start. From an address, the search goes back to the nearest
symbol, which contains most addresses. More difficult cases are left to an index (`containing`,
which has the rules).
"""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf.symbols.array import SymbolArray
from soscope.live.names.containing import (
    HAS_PLACE,
    INSIDE,
    NO_SECTION,
    RANK_OF,
    Hit,
    SymbolIndex,
    bounds_at,
    starts_plain,
)

_STEPS = 8  # symbols that are tried before the index is used


class _SymbolRows:
    """The symbols of several tables in a row, with consecutive numbers."""

    __slots__ = ("firsts", "heads", "sizes", "tables", "values")

    def __init__(self, tables: list[SymbolArray]) -> None:
        self.tables = tables
        self.firsts: list[int] = []
        self.heads: list[int] = []
        self.values: list[int] = []
        self.sizes: list[int] = []
        for symbols in tables:
            self.firsts.append(len(self.values))
            heads, values, sizes = symbols.columns()
            self.heads += heads
            self.values += values
            self.sizes += sizes

    def place(self, number: int) -> tuple[int, int]:
        """Return (table, row in the table) of a symbol's number."""
        table = bisect_right(self.firsts, number) - 1
        return table, number - self.firsts[table]

    def is_better(self, row: int, other: int) -> bool:
        """Return whether one of two symbols with the same value has priority over the other."""
        if row < other and self.sizes[row] == self.sizes[other]:
            head, info = self.heads[row], self.heads[other] >> 32 & 255
            if head >> 32 & 255 == info:  # nearly always an exported symbol in both tables
                strings = self.tables[bisect_right(self.firsts, row) - 1].strings
                if starts_plain(strings, head & 0xFFFF_FFFF):
                    return True
        return self._key(row) > self._key(other)

    def _key(self, number: int) -> tuple[int, int, int]:
        strings = self.tables[self.place(number)[0]].strings
        head = self.heads[number]
        rank = RANK_OF[head >> 32 & 255] + starts_plain(strings, head & 0xFFFF_FFFF)
        return -self.sizes[number], rank, -number


def find_some(
    tables: list[SymbolArray], bounds: list[tuple[int, int]], addrs: list[int]
) -> list[Hit]:
    """Return the symbol at each of some addresses, in order.

    `bounds` are the segments (start, end). All addresses are link-time addresses.
    """
    rows = _SymbolRows(tables)
    heads, values, sizes, firsts = rows.heads, rows.values, rows.sizes, rows.firsts
    order = sorted(range(len(values)), key=values.__getitem__)
    starts = [values[number] for number in order]
    hits: list[Hit] = []
    rest: list[int] = []
    start = limit = 0
    for addr in addrs:
        if not start <= addr < limit:
            start, limit = bounds_at(bounds, addr)
        innermost, best = start, -1
        first = bisect_right(starts, addr) - 1
        last = max(first - _STEPS, -1)
        for at in range(first, last, -1):
            value = starts[at]
            if value < innermost:
                break
            number = order[at]
            head = heads[number]
            if (
                addr < value + sizes[number] <= limit
                and head & 0xFFFF_FFFF
                and head >> 48 not in NO_SECTION
                and HAS_PLACE[head >> 32 & 255]
                and (best < 0 or rows.is_better(number, best))
            ):
                innermost, best = value, number
        else:
            if last >= 0:  # the index must check further symbols
                best = -1
        if best < 0:
            rest.append(len(hits))
        table = bisect_right(firsts, best) - 1
        hits.append((INSIDE, table, best - firsts[table], addr - innermost))
    if rest:
        left = [addrs[at] for at in rest]
        index = SymbolIndex(tables, bounds, sorted(left))
        for at, hit in zip(rest, index.find_all(left), strict=True):
            hits[at] = hit
    return hits
