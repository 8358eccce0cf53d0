# SPDX-License-Identifier: Apache-2.0
"""The live objects of one process, by file, line and type, read from its memory."""

from __future__ import annotations

from soscope.binfmt.source import ByteSource
from soscope.instruments.mem.origins import NO_ROOM, Origins
from soscope.instruments.mem.sampled import Chances
from soscope.instruments.mem.sidetable import SideTable, Tally, few
from soscope.live.heap.memory import BlockPages
from soscope.live.python.few import FewReader, StillMemory
from soscope.live.python.lines import LineTable, OriginCode
from soscope.live.python.offsets import PythonLayout, layout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from soscope.instruments.mem.objects import ObjectsPlace

_MAJOR = 3
_EXACT = 2  # numbers of a row if each object was counted
_FEW = 20_000  # objects, alive or not
_AT_ONCE = 500  # rows of a block; a recording that is cut off keeps the blocks before
_NO_SIZE = 1 << 47  # more bytes than any process has
UNKNOWN = "?"  # a type that cannot be read

PYTHON, RUBY = "python", "ruby"

# File, line, type, qualified type, count, bytes. If objects were chosen by chance, also the
# expected squares of the errors of count and bytes.
Row = list[str | int | float | None]


class Survivors:
    """The survivors of one process: `rows`, most objects first, and totals.

    `runtime` is the interpreter's name and version. `lost` counts objects for which there was no
    room. `notes` are sentences for the reader of the rows. `blocks` are the blocks of the
    objects.
    """

    __slots__ = ("blocks", "created", "destroyed", "lost", "notes", "rows", "runtime")

    def __init__(
        self,
        rows: list[Row],
        runtime: tuple[str, str],
        created: int,
        destroyed: int,
        lost: int,
        notes: list[str],
        blocks: BlockPages,
    ) -> None:
        self.blocks = blocks
        self.rows = sorted(
            rows,
            key=lambda row: (-float(row[4] or 0), -float(row[5] or 0), str(row[0]), row[1], row[2]),
        )
        self.runtime = runtime
        self.created = created
        self.destroyed = destroyed
        self.lost = lost
        self.notes = notes

    def plain(self) -> tuple[Any, ...]:
        """Return all fields as a tuple that marshal can write."""
        said = self.rows, self.runtime, self.created, self.destroyed, self.lost, self.notes
        return *said, self.blocks.plain()

    @classmethod
    def of_plain(cls, said: tuple[Any, ...]) -> Survivors:
        """Return the object that `plain` has turned into a tuple."""
        rows, runtime, created, destroyed, lost, notes, blocks = said
        made = BlockPages.of_plain(*blocks)
        return cls(rows, runtime, created, destroyed, lost, notes, made)

    def to_json(self, pid: int, libpython: str | None) -> list[dict[str, Any]]:
        """Return the survivors as OBJECTS blocks."""
        first: dict[str, Any] = {
            "pid": pid,
            "runtime": {
                "name": self.runtime[0],
                "version": self.runtime[1],
                "libpython": libpython if self.runtime[0] == PYTHON else None,
            },
            "created": self.created,
            "destroyed": self.destroyed,
            "lost": self.lost,
            "rows": self.rows[:_AT_ONCE],
        }
        rest = range(_AT_ONCE, len(self.rows), _AT_ONCE)
        return [first, *({"pid": pid, "rows": self.rows[at : at + _AT_ONCE]} for at in rest)]


def look(memory: ByteSource, place: ObjectsPlace, chances: Chances | None = None) -> Survivors:
    """Return the survivors of a stopped process, read from its memory.

    `chances` tells how likely each object was to be counted, None if all objects were.

    Raises ValueError if the agent's tables cannot be read.
    """
    tally = Tally(memory, place.tally)
    version = _MAJOR, place.minor
    layout = layout_of(version)

    tables: dict[OriginCode, LineTable] = {}

    def line(code: OriginCode, instr: int) -> int | None:
        if code not in tables:
            tables[code] = LineTable(code.lines, code.first_line, version)
        return tables[code].line(instr)

    blocks = BlockPages()
    still = StillMemory(memory)
    origins = Origins(still, tally, line)
    damaged: list[int] = []
    table = None
    if chances is None:
        table = few(memory, place.side, _FEW, blocks.apart, damaged)
    if table is not None:
        rows, without_line, odd = _few_rows(still, layout, table, origins, blocks)
    else:
        side = SideTable(memory, place.side)
        damaged = side.damaged
        rows, without_line, odd = _rows(memory, layout, side, origins, blocks, chances)
    live = round(sum(float(row[4] or 0) for row in rows))
    return Survivors(
        rows,
        (PYTHON, f"{_MAJOR}.{place.minor}"),
        tally.created,
        max(tally.created - live, 0),
        tally.lost,
        notes_of_room(tally.lost, without_line) + _notes_of_damage(odd, len(damaged)),
        blocks,
    )


def notes_of_room(lost: int, without_line: int) -> list[str]:
    """Return sentences about what the agent's tables had no room for.

    >>> from soscope.instruments.mem.survivors import notes_of_room
    >>> notes_of_room(3, 0)
    ['3 objects are not counted: there was no room for them']
    """
    notes = []
    if lost:
        notes.append(f"{lost:,} objects are not counted: there was no room for them")
    if without_line:
        notes.append(f"{without_line:,} objects have no line: there was no room for it")
    return notes


def _notes_of_damage(odd: int, tables: int) -> list[str]:
    """Return notes about objects without a valid size, and about damaged parts of their table."""
    notes = []
    if odd:
        notes.append(f"{odd:,} objects are damaged: their sizes cannot be, and are left out")
    if tables:
        notes.append(f"the table of objects is damaged: left out are {tables:,} of its parts")
    return notes


def _few_rows(
    memory: StillMemory,
    layout: PythonLayout,
    table: list[tuple[int, int, bool]],
    origins: Origins,
    blocks: BlockPages,
) -> tuple[list[Row], int, int]:
    """Return the same as `_rows`, without numpy."""
    reader = FewReader(memory, layout)
    sums: dict[tuple[int, int], list[float]] = {}
    without_line = odd = 0
    for addr, origin, is_dying in table:
        seen = reader.look(addr, is_dying)
        if seen is None:
            continue
        kind, size, own = seen
        if size >= _NO_SIZE:  # the program has overwritten it
            size, own = 0, []
            odd += 1
        row = sums.setdefault((origin, kind), [0, 0])
        row[0] += 1
        row[1] += size
        without_line += origin == NO_ROOM
        blocks.add_each(own)
    merged: dict[tuple[str | None, int, str, str], list[float]] = {}
    for (origin, kind), numbers in sums.items():
        info = reader.types.info(kind)
        name = (UNKNOWN, UNKNOWN) if info is None else (info.name, info.qualified)
        row = merged.setdefault((*origins.place(origin), *name), [0, 0])
        row[0] += numbers[0]
        row[1] += numbers[1]
    return [[*key, *numbers_of(row)] for key, row in merged.items()], without_line, odd


def _rows(
    memory: ByteSource,
    layout: PythonLayout,
    table: SideTable,
    origins: Origins,
    blocks: BlockPages,
    chances: Chances | None,
) -> tuple[list[Row], int, int]:
    """Return the rows, and how many objects have no line for lack of room, or no valid size.

    Add the objects' blocks to `blocks`.
    """
    import numpy as np

    from soscope.live.python.objects import ObjectReader

    reader = ObjectReader(memory, layout)
    objects = reader.look(table.addrs, table.dying)
    is_odd = objects.sizes >= _NO_SIZE
    objects.sizes[is_odd] = objects.own[is_odd] = 0
    blocks.add(objects.starts, objects.own)
    blocks.add(objects.buffers, np.maximum(objects.sizes, objects.own) - objects.own)
    alive = np.flatnonzero(objects.alive)
    types, which = np.unique(objects.types[alive], return_inverse=True)
    numbers, where = np.unique(table.origins[alive], return_inverse=True)
    pairs = where * len(types) + which
    columns = _columns(objects.sizes[alive], origins.sizes(table.origins[alive]), chances)
    sums = [np.bincount(pairs, column, len(types) * len(numbers)) for column in columns]
    places = [origins.place(int(number)) for number in numbers]
    without_line = np.count_nonzero(table.origins[alive] == NO_ROOM)
    names = [name or (UNKNOWN, UNKNOWN) for name in reader.type_names(types.tolist())]
    merged: dict[tuple[str | None, int, str, str], list[float]] = {}
    for pair in np.flatnonzero(sums[0]).tolist():
        key = (*places[pair // len(types)], *names[pair % len(types)])
        row = merged.setdefault(key, [0] * len(sums))
        for at, column in enumerate(sums):
            row[at] += column[pair]
    odd = np.count_nonzero(is_odd[alive])
    return [[*key, *numbers_of(row)] for key, row in merged.items()], int(without_line), int(odd)


def _columns(
    sizes: NDArray[np.uint64], chosen_by: NDArray[np.int64], chances: Chances | None
) -> list[NDArray[np.float64]]:
    """Return the numbers that each object adds to its row."""
    import numpy as np

    size = sizes.astype(np.float64)
    if chances is None:
        return [np.ones(len(size)), size]
    count = np.where(chosen_by == 0, 1.0, chances.count(chosen_by))
    variance = np.where(chosen_by == 0, 0.0, chances.count_variance(chosen_by))
    return [count, size * count, variance, size * size * variance]


def numbers_of(row: list[float]) -> list[int | float]:
    """Return the numbers of a row, as integers if each object was counted.

    >>> from soscope.instruments.mem.survivors import numbers_of
    >>> numbers_of([2.0, 112.0])
    [2, 112]
    """
    return [int(number) for number in row] if len(row) == _EXACT else [round(n, 3) for n in row]
