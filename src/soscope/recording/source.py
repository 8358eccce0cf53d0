# SPDX-License-Identifier: Apache-2.0
"""One thread of a stream: units that were handed over, decoded when it is their turn.

Until then they are kept as bytes: a ring full of them is two million objects otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from soscope.recording import pairing
from soscope.recording.names import Program
from soscope.recording.overhead import Overhead
from soscope.recording.units import records_of
from soscope.wire import layout

HOLE = 0  # the kind of a place where units of a thread may be missing
_OVERHEAD = (layout.UNIT_OVERHEAD << 28).to_bytes(4, "little")

# In order of a thread: (time, number, kind, words of the unit, its data)
Item = tuple[int, int, int, tuple[int, ...], bytes]


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

    def __init__(self, thread: pairing.Thread, program: Program, waiting: list[int]) -> None:
        self.thread = thread
        self.program = program
        self._waiting = waiting  # bytes that wait in all threads
        self.overhead = Overhead()
        self.last = 0
        self.seq = 0
        self.expected = 0
        self.full = 0
        # units, or the times between which something may have been lost; with a number
        self._queue: deque[tuple[int, bytes | tuple[int, ...]]] = deque()
        self._items: Iterator[Item] | None = None
        self.head: Item | None = None
        self.holes: list[tuple[int, ...]] = []

    def put(self, number: int, what: bytes | tuple[int, ...]) -> None:
        """Queue units, or a hole."""
        self._queue.append((number, what))
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
            number, what = queue.popleft()
            if isinstance(what, tuple):
                yield self.last, number, HOLE, what, b""
                continue
            self._waiting[0] -= len(what)
            for kind, record, data in records_of(what):
                if kind != layout.UNIT_OVERHEAD:
                    number += 1
                    tsc = record[2]
                    if tsc > self.last:  # noqa: PLR1730  max() takes as long as all the rest
                        self.last = tsc
                    yield self.last, number, kind, record, data

    def latest(self) -> int:
        """Return the latest time of all that has been queued."""
        latest = self.last
        for _, what in self._queue:
            if isinstance(what, bytes):
                for kind, record, _ in records_of(what):
                    if kind != layout.UNIT_OVERHEAD:
                        latest = max(latest, record[2])
        # what is decoded at this moment stands in nobody's queue
        if self._items is not None:
            rest = list(self._items)
            self._items = iter(rest)
            latest = max([latest, *(item[0] for item in rest)])
        return latest
