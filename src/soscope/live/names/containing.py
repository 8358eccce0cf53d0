# SPDX-License-Identifier: Apache-2.0
"""Find the symbol of some tables that contains an address, for one or many addresses."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.symboltable import SymbolArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


# Find the symbol that contains an address: one by one, or with an index for many.
#
# The innermost symbol with a size wins. If several have the same range, the order is: global, weak,
# local; a symbol with a type; a name that does not begin with an underscore; the first table; the
# first symbol in the table. A size that reaches beyond the symbol's segment does not count.

INSIDE = "symbol"
UNSIZED = "unsized"
GAP = "gap"

# kind, table, row in the table, bytes into the symbol or behind it; the table is -1 if no symbol
# is near
Hit = tuple[str, int, int, int]
# value, -size or size, rank, -table, -row
Key = tuple[int, int, int, int, int]

_MANY = 50_000  # symbols from which on importing numpy pays off
_RANKS = {c.STB_GLOBAL: 12, c.STB_GNU_UNIQUE: 12, c.STB_WEAK: 8, c.STB_LOCAL: 4}
_NO_PLACE = frozenset((c.STT_SECTION, c.STT_FILE, c.STT_TLS, c.STT_COMMON))
NO_SECTION = frozenset((c.SHN_UNDEF, c.SHN_ABS, c.SHN_COMMON))
_NOWHERE = (GAP, -1, -1, 0)
_HIGHEST = (1 << 63) - 1


# by st_info: the rank of a symbol without its name, and whether the symbol has an address at all
RANK_OF = [_RANKS.get(info >> 4, 0) + 2 * (info & 15 != c.STT_NOTYPE) for info in range(256)]
HAS_PLACE = [info & 15 not in _NO_PLACE for info in range(256)]


def starts_plain(strings: bytes, name: int) -> bool:
    """Return whether a name does not begin with an underscore."""
    return strings[name : name + 1] != b"_"


def bounds_at(bounds: list[tuple[int, int]], addr: int) -> tuple[int, int]:
    """Return the segment that contains `addr`, an empty one if none does."""
    for start, end in bounds:
        if start <= addr < end:
            return start, end
    return 0, 0


def scan(tables: list[SymbolArray], bounds: list[tuple[int, int]], addr: int) -> Hit:
    """Find the symbol at one address by a look at all symbols.

    `bounds` are the segments (start, end), as link-time addresses.
    """
    start, limit = bounds_at(bounds, addr)
    best: Key | None = None
    before: Key | None = None
    for table, symbols in enumerate(tables):
        for row, (name, info, _, section, value, size) in enumerate(symbols.rows()):
            if not start <= value <= addr < limit or section in NO_SECTION:
                continue
            if not name or info & 15 in _NO_PLACE:
                continue
            size = size if value + size <= limit else 0  # noqa: PLW2901  clipped
            rest = RANK_OF[info] + starts_plain(symbols.strings, name), -table, -row
            if addr < value + size:
                best = max(best or (0, -1 << 64, 0, 0, 0), (value, -size, *rest))
            else:
                before = max(before or (0, -1, 0, 0, 0), (value, size, *rest))
    if best is not None:
        return INSIDE, -best[3], -best[4], addr - best[0]
    return _NOWHERE if before is None else _beyond(before, addr)


def _beyond(before: Key, addr: int) -> Hit:
    """Return the result for an address behind the nearest symbol."""
    value, size, _, table, row = before
    return GAP if size else UNSIZED, -table, -row, addr - value - size


class SymbolIndex:
    """An index of some tables by address.

    It has two sorted lists of keys. One has the symbols with a size, with the best symbol of each
    range last. The other has all symbols, for addresses that are behind a symbol. For many
    symbols, both are numpy arrays. An index for only some `wanted` addresses, which are sorted,
    takes less time to make.
    """

    def __init__(
        self,
        tables: list[SymbolArray],
        bounds: list[tuple[int, int]],
        wanted: list[int] | None = None,
    ) -> None:
        self._bounds = sorted(bounds)
        self._tables = tables
        self._keys: Any
        self._near: Any
        self._starts: Any
        self._near_starts: Any
        symbols = sum(map(len, tables))
        if symbols > _MANY or ("numpy" in sys.modules and symbols > _MANY // 10):
            sized, near = _sorted_fast(tables, self._bounds)
            self._ends: list[int] = (sized[:, 0] - sized[:, 1]).tolist()
            self._keys, self._near = sized, near
            self._starts, self._near_starts = sized[:, 0].copy(), near[:, 0].copy()
        else:
            self._keys, self._ends = _sized(tables, self._bounds, wanted)
            self._starts = [key[0] for key in self._keys]
            self._near = self._near_starts = None  # made on request: most addresses are in a symbol
        self._around = _surrounding(self._ends)

    def find(self, addr: int) -> Hit:
        """Return the symbol at one address."""
        return self._hit(addr, bisect_right(self._starts, addr) - 1, None)

    def find_all(self, addrs: list[int]) -> list[Hit]:
        """Return the symbol at each of many addresses, in order."""
        starts = self._starts
        if isinstance(starts, list):
            return [self._hit(addr, bisect_right(starts, addr) - 1, None) for addr in addrs]
        import numpy as np

        wanted = np.array([min(addr, _HIGHEST) for addr in addrs], np.int64)
        at = np.searchsorted(self._starts, wanted, "right") - 1
        near = np.searchsorted(self._near_starts, wanted, "right") - 1
        return list(map(self._hit, addrs, at.tolist(), near.tolist()))

    def _nearest(self, addr: int) -> int:
        """Return the last symbol that begins at or before `addr`, -1 if there is none."""
        if self._near is None:
            self._near = _sorted(self._tables, self._bounds)
            self._near_starts = [key[0] for key in self._near]
        return bisect_right(self._near_starts, addr) - 1

    def _hit(self, addr: int, at: int, near: int | None) -> Hit:
        ends = self._ends
        while at >= 0 and ends[at] <= addr:
            at = self._around.get(at, -1)
        if at >= 0:  # no symbol extends beyond its segment
            key = self._keys[at]
            value, _, _, table, row = key if isinstance(key, tuple) else map(int, key)
            return INSIDE, -table, -row, addr - value
        start, limit = bounds_at(self._bounds, addr)
        if near is None:
            near = self._nearest(addr)
        if near >= 0 and start <= self._near_starts[near] and addr < limit:
            value, size, rank, table, row = map(int, self._near[near])
            return _beyond((value, size, rank, table, row), addr)
        return _NOWHERE


def _surrounding(ends: list[int]) -> dict[int, int]:
    """Return symbol -> nearest earlier symbol that ends behind it, for symbols that have one."""
    nearest: dict[int, int] = {}
    if all(map(le, ends, islice(ends, 1, None))):  # nearly always
        return nearest
    highest = 0
    for at, end in enumerate(ends):
        if end >= highest:
            highest = end
            continue
        other = at - 1
        while ends[other] <= end:
            other = nearest[other]
        nearest[at] = other
    return nearest


def _sized(
    tables: list[SymbolArray], bounds: list[tuple[int, int]], wanted: list[int] | None
) -> tuple[list[Key], list[int]]:
    """Return the symbols with a size, best last, and their end addresses.

    If the sorted list `wanted` is given, only symbols that contain one of its addresses are
    returned.
    """
    every: list[Key] = []
    addrs = None if wanted is None else [*wanted, 1 << 65]
    for table, symbols in enumerate(tables):
        rows, strings = enumerate(symbols.rows()), symbols.strings
        if addrs is None:
            every += [
                (value, -size, RANK_OF[info] + (strings[name : name + 1] != b"_"), -table, -row)
                for row, (name, info, _, section, value, size) in rows
                if size and name and section not in NO_SECTION and HAS_PLACE[info]
            ]
        else:
            every += [
                (value, -size, RANK_OF[info] + (strings[name : name + 1] != b"_"), -table, -row)
                for row, (name, info, _, section, value, size) in rows
                if addrs[bisect_left(addrs, value)] < value + size
                and name
                and section not in NO_SECTION
                and HAS_PLACE[info]
            ]
    every.sort()
    keys: list[Key] = []
    ends: list[int] = []
    high = 0
    for start, limit in bounds:
        low = bisect_left(every, (start,), high)
        high = bisect_left(every, (limit,), low)
        part = every[low:high]
        behind = [key[0] - key[1] for key in part]
        if behind and max(behind) > limit:
            part = [key for key in part if key[0] - key[1] <= limit]
            behind = [key[0] - key[1] for key in part]
        keys += part
        ends += behind
    return keys, ends


def _sorted(tables: list[SymbolArray], bounds: list[tuple[int, int]]) -> list[Key]:
    """Return all symbols, sorted to find the nearest one before an address; the best is last."""
    keys: list[Key] = []
    start = limit = 0
    for table, symbols in enumerate(tables):
        strings = symbols.strings
        for row, (name, info, _, section, value, size) in enumerate(symbols.rows()):
            if not name or section in NO_SECTION or not HAS_PLACE[info]:
                continue
            if not start <= value < limit:
                start, limit = bounds_at(bounds, value)
                if not limit:
                    continue
            rank = RANK_OF[info] + starts_plain(strings, name)
            keys.append((value, size if value + size <= limit else 0, rank, -table, -row))
    keys.sort()
    return keys


def _sorted_fast(tables: list[SymbolArray], bounds: list[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the results of `_sized` and `_sorted` for very many symbols, one row for each."""
    import numpy as np

    columns = [_columns(symbols, table, bounds) for table, symbols in enumerate(tables)]
    value, size, rank, table, row = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.lexsort((-row, -table, rank, -size, value))
    order = order[size[order] > 0]
    sized = np.stack([value, -size, rank, -table, -row], axis=1)[order]
    order = np.lexsort((-row, -table, rank, size, value))
    return sized, np.stack([value, size, rank, -table, -row], axis=1)[order]


def _columns(
    symbols: SymbolArray, table: int, bounds: list[tuple[int, int]]
) -> tuple[Array, Array, Array, Array, Array]:
    """Return value, size, rank, table and row of a table's symbols that have an address."""
    import numpy as np

    order = symbols.encoding.order
    rows = np.frombuffer(symbols.table, dtype=_layout(symbols.encoding.bits, order))
    kind, binding = rows["info"] & 15, rows["info"] >> 4
    ranks = np.zeros(16, np.int64)
    for number, rank in _RANKS.items():
        ranks[number] = rank
    # addresses in the upper half of the address space belong to no program; they are negative here
    value, size = rows["value"].astype(np.int64), rows["size"].astype(np.int64)
    value += symbols.shift
    if symbols.encoding.bits == 32:
        value &= 0xFFFF_FFFF
    limit = np.zeros(len(rows), np.int64)
    for start, end in bounds:
        limit[(value >= start) & (value < min(end, _HIGHEST))] = min(end, _HIGHEST)
    keep = (rows["name"] != 0) & (limit > 0)
    keep &= ~np.isin(rows["section"], list(NO_SECTION)) & ~np.isin(kind, list(_NO_PLACE))
    size[(size < 0) | (size > limit - value)] = 0
    row = np.nonzero(keep)[0]
    letters = np.frombuffer(symbols.strings + b"\0", np.uint8)
    letter = letters[np.minimum(rows["name"], len(letters) - 1)]
    rank = ranks[binding] + 2 * (kind != c.STT_NOTYPE) + (letter != ord("_"))
    return value[keep], size[keep], rank[keep], np.full(len(row), table, np.int64), row


def _layout(bits: int, order: str) -> list[tuple[str, str]]:
    """Return the layout of a symbol as a numpy dtype."""
    if bits == 64:
        fields = "name:u4 info:u1 other:u1 section:u2 value:u8 size:u8"
    else:
        fields = "name:u4 value:u4 size:u4 info:u1 other:u1 section:u2"
    pairs = (field.split(":") for field in fields.split())
    return [(name, order + kind) for name, kind in pairs]
