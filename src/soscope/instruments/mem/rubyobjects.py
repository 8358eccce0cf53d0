# SPDX-License-Identifier: Apache-2.0
"""Live objects of Ruby, by file, line and class.

At the end of its program Ruby has counted them itself, as ObjectSpace does. A process that was
killed cannot do so. Then flags and classes are read from its objects, and names are those that
Ruby gave the agent before.
"""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.instruments.mem.origins import NO_ROOM, Origins
from soscope.instruments.mem.sampled import Chances
from soscope.instruments.mem.sidetable import SideTable, Tally
from soscope.instruments.mem.survivors import RUBY, Survivors, notes_of_room, numbers_of
from soscope.live.heap.memory import BlockPages
from soscope.live.python.objects import gather
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from soscope.instruments.mem.objects import ObjectsPlace

ANONYMOUS = "#<Class>"  # a class without a name
# RUBY_T_… numbers, with names for objects that have no class.
_KINDS = {
    1: "object",
    2: "class",
    3: "module",
    4: "float",
    5: "string",
    6: "regexp",
    7: "array",
    8: "hash",
    9: "struct",
    10: "bignum",
    11: "file",
    12: "data",
    13: "match",
    14: "complex",
    15: "rational",
    20: "symbol",
    26: "imemo",
    27: "node",
    28: "iclass",
}
# The classes of objects of a kind, unless a program has derived classes from them.
_USUAL = {
    2: "Class",
    3: "Module",
    4: "Float",
    5: "String",
    6: "Regexp",
    7: "Array",
    8: "Hash",
    10: "Integer",
    13: "MatchData",
    14: "Complex",
    15: "Rational",
    20: "Symbol",
}
_CLASS, _IMEMO, _ICLASS = 2, 26, 28
_SUPER = 16  # offset of the superclass in a class
_SUPERS_MAX = 64
_SLOT = 40  # bytes of a slot, if all slots have the same size
_HEAP_PAGE = 1 << 16  # bytes of a heap page with slots of one of several sizes
_FIRST_WITH_SIZES = 302  # Ruby 3.2, the first with slots of several sizes


def look_at_ruby(
    memory: ByteSource, place: ObjectsPlace, chances: Chances | None = None
) -> Survivors:
    """Return the survivors of a stopped Ruby process, read from its memory.

    `chances` tells how likely each object was to be counted, None if all objects were.

    Raises ValueError if the agent's tables cannot be read.
    """
    tally = Tally(memory, place.tally)
    own = read_table(memory, place.ruby, layout.RUBY.size)
    types, rows, row_count, rows_lost, moved = layout.RUBY.struct.unpack(own)
    names = RubyNames(memory, types)
    slots = RubySlots(memory, SideTable(memory, place.side), place.minor)
    blocks = BlockPages()
    blocks.add(slots.addrs, slots.sizes)
    groups = _counted(memory, rows, row_count, names) if rows else _seen(slots, names)
    origins = Origins(memory, tally, lambda _, line: line)
    merged: dict[tuple[str | None, int, str], list[float]] = {}
    without_line = 0
    for group, numbers in zip(groups, _numbers(groups, origins, chances), strict=True):
        without_line += group[2] if group[0] == NO_ROOM else 0
        key = (*origins.place(group[0]), group[1])
        total = merged.setdefault(key, [0] * len(numbers))
        for at, number in enumerate(numbers):
            total[at] += number
    live = round(sum(total[0] for total in merged.values()))
    lost = tally.lost + rows_lost
    notes = notes_of_room(lost, without_line)
    if moved and chances is None:  # in samples, objects that were never counted move, too
        notes.append(f"compaction has moved {moved:,} objects to unknown addresses")
    if names.unknown:
        notes.append(f"{names.unknown:,} objects are told by kind, not by class")
    return Survivors(
        [[*key, key[-1], *numbers_of(total)] for key, total in merged.items()],
        (RUBY, f"{place.minor // 100}.{place.minor % 100}"),
        tally.created,
        max(tally.created - live, 0),  # objects that wait for their free are destroyed, too
        lost,
        notes,
        blocks,
    )


class RubyNames:
    """Names of objects, by kind and class. `unknown` counts objects whose class is not known."""

    def __init__(self, memory: ByteSource, addr: int) -> None:
        self._memory = memory
        self._table = read_table(memory, addr, layout.RUBY_TYPES * layout.RUBY_TYPE.size)
        self._classes: dict[int, str | None] = {}
        self._cache: dict[int, str | None] = {}
        self.unknown = 0
        for at in range(layout.RUBY_TYPES):
            addr, _, _, asked = self._fields(at)
            if addr > layout.RUBY_FREED and asked:
                self._classes[addr] = self._name(at)

    def _fields(self, at: int) -> tuple[int, int, int, int]:
        fields = layout.RUBY_TYPE.struct.unpack_from(self._table, at * layout.RUBY_TYPE.size)
        return fields[0], fields[1], fields[2], fields[3]

    def _name(self, at: int) -> str:
        _, addr, size, _ = self._fields(at)
        return self._memory.read(addr, size).decode("utf-8", "replace") if addr else ANONYMOUS

    def of_row(self, type_number: int) -> str:
        """Return the name for the type number of a row."""
        if type_number >= layout.RUBY_BUILTIN:
            return self._name(type_number - layout.RUBY_BUILTIN)
        return _hidden(type_number)

    def of_class(self, kind: int, addr: int, count: int) -> str:
        """Return the name for `count` objects of a kind whose class is at `addr`."""
        if not addr or kind >= _IMEMO:
            return _hidden(kind)
        if addr not in self._cache:
            self._cache[addr] = self._nearest(addr)
        name = self._cache[addr]
        if name is None:
            self.unknown += count
            return _USUAL.get(kind, _hidden(kind))
        return name

    def of_itself(self, addr: int) -> str | None:
        """Return the name of a class or module, None if it has none or if the name is not known."""
        name = self._classes.get(addr)
        return None if name == ANONYMOUS else name

    def _nearest(self, addr: int) -> str | None:
        """Return the name of the first known class above a singleton class."""
        for _ in range(_SUPERS_MAX):
            if addr in self._classes:
                return self._classes[addr]
            head = self._memory.read(addr, _SUPER + 8)
            if len(head) < _SUPER + 8 or head[0] & layout.RUBY_KIND not in (_CLASS, _ICLASS):
                return None
            addr = int.from_bytes(head[_SUPER:], "little")
        return None


def _hidden(kind: int) -> str:
    return f"__{_KINDS.get(kind, 'unknown')}__"


def ruby_types(memory: ByteSource, place: ObjectsPlace) -> int:
    """Return the address of the agent's table of classes of a Ruby. Raises ValueError."""
    own = read_table(memory, place.ruby, layout.RUBY.size)
    types: int = layout.RUBY.struct.unpack(own)[0]
    return types


Group = tuple[int, str, int, int, int]  # origin, type, objects, bytes, squares of bytes


def _counted(memory: ByteSource, addr: int, count: int, names: RubyNames) -> list[Group]:
    """Return the groups of objects that Ruby itself has counted."""
    import numpy as np

    numbers = [(name, "<u8") for name in ("count", "bytes", "squares")]
    fields = [("origin", "<u4"), ("type", "<u4"), *numbers]
    table = np.frombuffer(read_table(memory, addr, count * layout.RUBY_ROW.size), np.dtype(fields))
    rows: list[tuple[int, int, int, int, int]] = table[table["count"] > 0].tolist()
    return [
        (origin, names.of_row(kind), number, size, squares)
        for origin, kind, number, size, squares in rows
    ]


class RubySlots:
    """The slots of live objects, as columns. `classes` are addresses."""

    def __init__(self, memory: ByteSource, table: SideTable, version: int) -> None:
        import numpy as np

        words, known = gather(memory, table.addrs, 2)
        kinds = words[:, 0] & np.uint64(layout.RUBY_KIND)
        alive = known.all(axis=1) & (kinds > 0) & (kinds <= _ICLASS)
        self.addrs = table.addrs[alive]
        self.origins = table.origins[alive].astype("<u8")
        self.kinds, self.classes = kinds[alive], words[alive, 1]
        self.sizes = np.full(len(self.addrs), _SLOT, "<u8")
        if version >= _FIRST_WITH_SIZES:
            self.sizes = _slot_sizes(memory, self.addrs)


def _seen(slots: RubySlots, names: RubyNames) -> list[Group]:
    """Return the groups of objects, read from the objects themselves."""
    import numpy as np

    keys = np.stack([slots.origins, slots.kinds, slots.classes], axis=1)
    rows, which, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    sizes = slots.sizes.astype(np.float64)
    totals = np.bincount(which.ravel(), sizes, len(rows))
    squares = np.bincount(which.ravel(), sizes * sizes, len(rows))
    return [
        (origin, names.of_class(kind, addr, count), count, int(total), int(square))
        for (origin, kind, addr), count, total, square in zip(
            rows.tolist(), counts.tolist(), totals.tolist(), squares.tolist(), strict=True
        )
    ]


def _numbers(
    groups: list[Group], origins: Origins, chances: Chances | None
) -> list[tuple[float, ...]]:
    """Return the numbers that each group of objects adds to its row."""
    if chances is None:
        return [(count, size) for _, _, count, size, _ in groups]
    import numpy as np

    sizes = origins.sizes(np.array([group[0] for group in groups], "<i8"))
    weights = np.where(sizes == 0, 1.0, chances.count(sizes)).tolist()
    variances = np.where(sizes == 0, 0.0, chances.count_variance(sizes)).tolist()
    return [
        (count * weight, size * weight, count * variance, squares * variance)
        for (_, _, count, size, squares), weight, variance in zip(
            groups, weights, variances, strict=True
        )
    ]


def _slot_sizes(memory: ByteSource, addrs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the size of each slot, read from the descriptor of its page."""
    import numpy as np

    pages, inverse = np.unique(addrs & ~np.uint64(_HEAP_PAGE - 1), return_inverse=True)
    sizes = []
    for page in pages.tolist():
        described = int.from_bytes(memory.read(page, 8), "little")
        size = int.from_bytes(memory.read(described, 2), "little")
        sizes.append(size if size >= _SLOT and size % 8 == 0 else _SLOT)
    return np.array(sizes, "<u8")[inverse]


def read_table(memory: ByteSource, addr: int, size: int) -> bytes:
    """Return `size` bytes of an agent's table. Raises ValueError if they cannot be read."""
    data = memory.read(addr, size)
    if len(data) < size:
        raise ValueError("the tables of Ruby's objects cannot be read")
    return data
