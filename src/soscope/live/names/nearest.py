# SPDX-License-Identifier: Apache-2.0
"""Which symbol contains an address, for a few addresses in an image of few symbols.

Symbols are sorted by where they begin and nothing else, and from an address it goes back to the
nearest one: most addresses lie in that. What takes more is left to an index (`containing`, which
has the rules).
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

_STEPS = 8  # symbols that are looked at before it is left to an index


class _SymbolRows:
    """The symbols of some tables behind one another, numbered through."""

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
        """Return (table, row in it)."""
        table = bisect_right(self.firsts, number) - 1
        return table, number - self.firsts[table]

    def is_better(self, row: int, other: int) -> bool:
        """Return whether one of two symbols of the same value is meant, not the other."""
        if row < other and self.sizes[row] == self.sizes[other]:
            head, info = self.heads[row], self.heads[other] >> 32 & 255
            if head >> 32 & 255 == info:  # one that is exported, nearly always: the same twice
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
    """Return what is at each of some addresses, in order.

    `bounds` are the segments, (start, end). All are link-time addresses.
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
            if last >= 0:  # there may be more at the same address, or one around them
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
