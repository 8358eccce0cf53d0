# SPDX-License-Identifier: Apache-2.0
"""One thread of a stream: units that were handed over, decoded when it is their turn.

Until then they are kept as bytes, as a ring full of them would be two million objects.
"""

from __future__ import annotations

from soscope.model.call import WholeCall
from soscope.model.image import ERROR_BITS, is_error
from soscope.recording import pairing, runs
from soscope.recording.names import NO_SLOT, RecordedProgram
from soscope.recording.overhead import Overhead
from soscope.recording.units import KIND, NUMBER, START, TICKS_LOW, entries_in, latest_of, record_at
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # `collections` itself is slow to import

HOLE = 0  # kind of an item: units of the thread may be missing here
_ENTRIES = (layout.UNIT_ENTRY, layout.UNIT_ENTRY_ONLY)
_ENDS = layout.UNIT_EXIT << 28
_WHOLE, _OPEN = runs.WHOLE[0], runs.OPEN[0]
_OVERHEAD = (layout.UNIT_OVERHEAD << 28).to_bytes(4, "little")

# Items of a thread: (place in the order of times, number, kind, words of the unit, its data,
# time).
Item = tuple[int, int, int, tuple[int, ...], bytes, int]


class Source:
    """One thread: its stacks, and its units that wait for their turn.

    `head` is the next item, None if there is none. `holes` are the holes before it. `back` is the
    exit if the head is the entry of a WHOLE unit, else (). `last` is the latest time so far.
    `seq`, `expected` and `full` describe the thread's current chunk: its number, the number of
    its next unit, and when it was given back.
    """

    __slots__ = (
        "_at",
        "_begun",
        "_floor",
        "_letters",
        "_number",
        "_queue",
        "_tsc",
        "_units",
        "_waiting",
        "back",
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
        # Units, or the times between which something may have been lost; with a number, and a time
        # that they do not come before.
        self._queue: deque[tuple[int, bytes | tuple[int, ...], int]] = deque()
        self._units = b""  # being decoded
        self._letters = b""  # the letter of each, if computed
        self._begun = self._at = 0  # bytes: position of the head in them, and of what follows it
        self._number = self._floor = 0
        self._tsc = 0  # time of the previous record
        self.back: tuple[int, ...] = ()
        self.head: Item | None = None
        self.holes: list[tuple[int, ...]] = []

    def put(self, number: int, what: bytes | tuple[int, ...], floor: int) -> None:
        """Queue units or a hole. Everything from before `floor` is in order already."""
        self._queue.append((number, what, floor))
        if isinstance(what, bytes):
            self._waiting[0] += len(what)
            # Exits need all overheads before them, wherever these are in the queue.
            at = what.find(_OVERHEAD)
            while at >= 0:
                if not at % layout.UNIT:
                    _, _, tsc, ticks, _ = layout.OVERHEAD.struct.unpack_from(what, at)
                    self.overhead.add(tsc, ticks)
                    self.thread.took(tsc, ticks)
                at = what.find(_OVERHEAD, at + 1)

    def advance(self) -> Item | None:
        """Move to the next item and return it, None if there is none."""
        if self.back:
            record, self.back = self.back, ()
            return self._item(layout.UNIT_EXIT, record, b"")
        while True:
            while self._at < len(self._units):
                at = self._begun = self._at
                kind, record, self.back, self._at = record_at(self._units, at, self.program)
                if kind and kind != layout.UNIT_OVERHEAD:
                    data = self._units[at + layout.UNIT : self._at]
                    return self._item(kind, record, data)
            if not self._queue:
                self.head = None
                return None
            self._number, what, self._floor = self._queue.popleft()
            if isinstance(what, tuple):
                place = max(self.last, self._floor)
                self.head = place, self._number, HOLE, what, b"", self.last
                return self.head
            self._waiting[0] -= len(what)
            self._units, self._letters, self._at = what, b"", 0
            # Here, and not at the turn of another thread, as durations must not depend on that.
            self.overhead.forget(self._tsc)

    def _item(self, kind: int, record: tuple[int, ...], data: bytes) -> Item:
        self._number += 1
        tsc, last = record[2], self.last
        if tsc > last:  # max() would take as long as all the rest
            last = self.last = tsc
        self._tsc = tsc
        self.head = item = max(self._floor, last), self._number, kind, record, data, last
        return item

    def wholes(
        self, until: int, low: int, high: int, apart: dict[int, list[pairing.OpenCall]]
    ) -> list[WholeCall]:
        """Take only calls from the head on that need no pairing.

        Each is a WHOLE unit, or an entry directly followed by its exit. They end before `until`,
        and none ends before the previous one. Their `sp` is from `low` to `high`, and not in
        `apart`. The head must be an entry.
        """
        units, letters, program = self._units, self._letters, self.program
        if not letters:
            letters = self._letters = runs.letters_of(units)
        at = self._begun // layout.UNIT
        sites, slots, origin = program.sites_once, program.slots_once, program.tsc_start
        knows_errno, fails = program.knows_errno, ERROR_BITS.get
        returns_low, returns_high = program.sites
        last = self.last
        calls: list[WholeCall] = []
        while (run := runs.run_at(letters, units, at)) is not None:
            size, rows = run
            if letters[at] == _WHOLE:
                for commit, sp, times, result, arg0, data in rows:
                    start = origin + (times & START)
                    ticks = commit & TICKS_LOW | times >> layout.START_BITS << layout.TICKS_LOW
                    over = start + ticks
                    slot = sites[commit >> layout.TICKS_LOW & NUMBER]
                    if (
                        ticks == layout.NO_TICKS
                        or slot is None
                        or start < last
                        or over >= until
                        or not low <= sp <= high
                        or sp in apart
                    ):
                        break
                    last = over
                    at += size
                    calls.append((start, ticks, slot, arg0, result, data, None, b""))
                else:
                    continue
                break
            is_open = letters[at] == _OPEN
            for commit, sp, times, back_to, arg0, data, end, same, over, result, code, back in rows:
                if is_open:
                    slot = sites[commit >> layout.TICKS_LOW & NUMBER]
                    start = origin + (times & START)
                else:
                    slot, start = slots[commit & NO_SLOT], times
                    if returns_low <= back_to < returns_high:
                        break  # it is a tail call
                if (
                    slot is None
                    or end != _ENDS | slot.index
                    or same != sp
                    or over < start
                    or not start
                    or start < last
                    or over >= until
                    or not low <= sp <= high
                    or sp in apart
                ):
                    break
                errno = None
                rule = slot.error_rule
                if rule and knows_errno:
                    bits = fails(rule)  # mostly avoids a function call
                    if is_error(rule, result) if bits is None else result & bits:
                        errno = code & 0xFFFF_FFFF
                last = over
                at += size
                calls.append((start, over - start, slot, arg0, result, data, errno, back))
            else:
                continue
            break
        if calls:
            self._at, self.last, self._tsc, self.back = at * layout.UNIT, last, last, ()
            self.advance()
        return calls

    def returns_next(self) -> bool:
        """Return whether an exit directly follows the head and its data."""
        at = self._at
        return bool(self.back) or (
            at < len(self._units) and self._units[at + KIND] >> 4 == layout.UNIT_EXIT
        )

    def calls_left(self) -> int:
        """Return how many entries wait, including the head."""
        head = self.head
        left = int(head is not None and head[2] in _ENTRIES)
        for what in (self._units[self._at :], *(what for _, what, _ in self._queue)):
            if isinstance(what, bytes):
                left += entries_in(what)
        return left

    def latest(self) -> int:
        """Return the latest time of all queued units."""
        latest = max(self.last, self.back[2] if self.back else 0)
        # Units that are being decoded are in no queue.
        for what in (self._units[self._at :], *(what for _, what, _ in self._queue)):
            if isinstance(what, bytes):
                latest = max(latest, latest_of(what, self.program))
        return latest
