# SPDX-License-Identifier: Apache-2.0
"""One thread of a stream: units that were handed over, decoded when it is their turn.

Until then they are kept as bytes: a ring full of them is two million objects otherwise.
"""

from __future__ import annotations

from _collections_abc import Iterator

from soscope.recording import pairing
from soscope.recording.names import RecordedProgram
from soscope.recording.overhead import Overhead
from soscope.recording.units import records_of
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # the rest of `collections` is slow to import

HOLE = 0  # the kind of a place where units of a thread may be missing
_OVERHEAD = (layout.UNIT_OVERHEAD << 28).to_bytes(4, "little")

# In order of a thread: (place in the order of times, number, kind, words of the unit, its
# data, time)
Item = tuple[int, int, int, tuple[int, ...], bytes, int]


class Source:
    """One thread: its stacks, and its units that wait for their turn.

    `head` is the next item, None while there is none; `holes` are those in front of it.
    `last` is the latest time so far; `seq`, `expected` and `full` describe the thread's
    current chunk: its number, the number of its next unit, when it was given back.
    """

    __slots__ = (
        "_items",
        "_queue",
        "_waiting",
        "expected",
        "full",
        "head",
        "holes",
        "last",
        "overhead",
        "program",
        "seq",
        "thread",
    )

    def __init__(
        self, thread: pairing.PairedThread, program: RecordedProgram, waiting: list[int]
    ) -> None:
        self.thread = thread
        self.program = program
        self._waiting = waiting  # bytes that wait in all threads
        self.overhead = Overhead()
        self.last = 0
        self.seq = 0
        self.expected = 0
        self.full = 0
        # units, or the times between which something may have been lost; with a number, and
        # the place in front of which they do not come
        self._queue: deque[tuple[int, bytes | tuple[int, ...], int]] = deque()
        self._items: Iterator[Item] | None = None
        self.head: Item | None = None
        self.holes: list[tuple[int, ...]] = []

    def put(self, number: int, what: bytes | tuple[int, ...], floor: int) -> None:
        """Queue units, or a hole; what was done before `floor` has been put in order already."""
        self._queue.append((number, what, floor))
        if isinstance(what, bytes):
            self._waiting[0] += len(what)
            # Exits are to find all overheads in front of them, wherever those stand.
            at = what.find(_OVERHEAD)
            while at >= 0:
                if not at % layout.UNIT:
                    _, _, tsc, ticks, _ = layout.OVERHEAD.struct.unpack_from(what, at)
                    self.overhead.add(tsc, ticks)
                at = what.find(_OVERHEAD, at + 1)

    def advance(self) -> Item | None:
        """Move to the next item; return it, None where there is none."""
        if self._items is None:
            self._items = self._decode()
        self.head = next(self._items, None)
        if self.head is None:
            self._items = None
        return self.head

    def _decode(self) -> Iterator[Item]:
        queue = self._queue
        while queue:
            number, what, floor = queue.popleft()
            if isinstance(what, tuple):
                yield max(self.last, floor), number, HOLE, what, b"", self.last
                continue
            self._waiting[0] -= len(what)
            for kind, record, data in records_of(what, self.program):
                if kind != layout.UNIT_OVERHEAD:
                    number += 1
                    tsc = record[2]
                    if tsc > self.last:  # noqa: PLR1730  max() takes as long as all the rest
                        self.last = tsc
                    last = self.last
                    yield (max(floor, last)), number, kind, record, data, last

    def latest(self) -> int:
        """Return the latest time of all that has been queued."""
        latest = self.last
        for _, what, _ in self._queue:
            if isinstance(what, bytes):
                for kind, record, _ in records_of(what, self.program):
                    if kind != layout.UNIT_OVERHEAD:
                        latest = max(latest, record[2])
        # what is decoded at this moment stands in nobody's queue
        if self._items is not None:
            rest = list(self._items)
            self._items = iter(rest)
            latest = max([latest, *(item[5] for item in rest)])
        return latest
