# SPDX-License-Identifier: Apache-2.0
"""Make calls from units, one after the other: live from the ring, or from a recording.

A stream has a source for each thread. It subtracts the agent's own time from durations.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heapify, heappop, heappush

from soscope.model.call import (
    ENDED_EXIT,
    ENDED_LOST,
    ENDED_RETURN,
    ENDED_UNWOUND,
    NOTHING,
    Captured,
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
    Stretch,
    WholeCall,
)
from soscope.model.image import ERROR_BITS, is_error
from soscope.recording import pairing
from soscope.recording import units as runs
from soscope.recording.clock import SPACING, Clock
from soscope.recording.format import ends_calls, how_ended
from soscope.recording.names import NO_SLOT, Programs, RecordedProgram
from soscope.recording.sink import Losses, Sink, Stop, Told
from soscope.recording.units import (
    KIND,
    NUMBER,
    START,
    TICKS_LOW,
    Piece,
    captured,
    entries_in,
    exit_of,
    latest_of,
    pieces_of,
    record_at,
)
from soscope.wire import layout

TYPE_CHECKING = False


# The time that the agent took in one thread, which is subtracted from durations.


class Overhead:
    """Spans of one thread, with their sum up to a time."""

    __slots__ = ("_folded", "_starts", "_ticks")

    _MANY = 64

    def __init__(self) -> None:
        self._folded = 0  # ticks of spans before all further queries
        self._starts: list[int] = []  # tsc of the other spans, in order
        self._ticks: list[int] = []

    def add(self, tsc: int, ticks: int) -> None:
        """Add a span of `ticks` that began at `tsc`."""
        at = len(self._starts)
        if at and tsc < self._starts[-1]:
            at = bisect_left(self._starts, tsc)
        self._starts.insert(at, tsc)
        self._ticks.insert(at, ticks)

    def before(self, tsc: int) -> int:
        """Return the ticks of all spans that began before `tsc`.

        `tsc` must not be before a time given to `forget`.
        """
        if not self._starts:
            return self._folded
        return self._folded + sum(self._ticks[: bisect_left(self._starts, tsc)])

    def next(self, tsc: int) -> int | None:
        """Return when the first span from `tsc` on began, None if there is none."""
        at = bisect_left(self._starts, tsc)
        return self._starts[at] if at < len(self._starts) else None

    def forget(self, tsc: int) -> None:
        """Forget spans before `tsc`, as all further queries are about later times."""
        if len(self._starts) > self._MANY:
            at = bisect_left(self._starts, tsc)
            self._folded += sum(self._ticks[:at])
            del self._starts[:at], self._ticks[:at]


# One thread of a stream: units that were handed over, decoded when it is their turn.
#
# Until then they are kept as bytes, as a ring full of them would be two million objects.

if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # 0.1 ms; collections takes 2

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
        """Queue units or a hole. They are placed at `floor` or later.

        All events from before `floor` have been put in order already.
        """
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


if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.recording.reader import RecordingFile

_ELSEWHERE = {pairing.MOVED, pairing.INHERITED}  # the entry is in another thread
_FOREVER = 1 << 80
HOLD = SPACING  # ns for which events wait for earlier ones
_SLICE = 1000  # events made at once; more only costs memory


class Stream(Sink):
    """Decodes its input. `take` returns the events that are in order by now.

    `programs` are programs that are known already. With `stretches`, consecutive calls that need
    no pairing become one Stretch instead of an Entry and an Exit each.
    """

    __slots__ = (
        "_alive",
        "_by_thread",
        "_clock",
        "_dead",
        "_given",
        "_heap",
        "_lately",
        "_latest",
        "_losses",
        "_number",
        "_out",
        "_over",
        "_pairing",
        "_passed",
        "_starting",
        "_stop",
        "_stopped",
        "_stretches",
        "_ticks",
        "_told",
        "_until",
        "_waiting",
        "programs",
    )

    def __init__(self, programs: Programs | None = None, *, stretches: bool = False) -> None:
        self._stretches = stretches
        self._waiting = [0]
        self._given = programs is not None
        self._clock = Clock()
        self.programs = programs or Programs(self._clock)
        self._pairing = pairing.Pairing()
        self._losses = Losses()
        self._by_thread: dict[tuple[int, int, int], Source] = {}
        self._alive: dict[int, dict[int, list[Source]]] = {}  # threads by pid and tid
        # The heads of all threads that have one: (time, number, thread).
        self._heap: list[tuple[int, int, Source]] = []
        # A heap, too: (time, number, serial number, event, the threads that it ended).
        self._told: list[tuple[int, float, int, Told | Stop | int, list[Source]]] = []
        self._starting: dict[int, int] = {}  # pid -> how many of its starts wait in `_told`
        self._number = 0
        self._ticks: deque[tuple[int, int]] = deque()  # tsc, monotonic; younger than HOLD
        self._until = 0  # events up to this time are in order
        self._lately: deque[tuple[int, int]] = deque()  # like `_ticks`, for ticks of `tick`
        self._passed = 0  # everything up to this time has arrived
        self._latest = 0  # ns of the latest event that was returned
        self._dead: dict[int, str] = {}  # pid -> how its open calls end
        self._out: list[Event] = []
        self._stop = 0  # end of the recording (tsc), from when on no event is returned, or 0
        self._over = False  # the recording has ended, no more calls
        self._stopped: set[int] = set()  # programs whose recording has ended

    # ---- input ----

    def program(self, index: int, facts: dict[str, object]) -> None:
        """Take the facts about a program."""
        self.programs[index].facts = facts

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:
        """Take images, slots or strings."""
        if not self._given:
            self.programs[program].add(kind, first, data)

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        """Process whole chunks."""
        for piece in pieces_of(program, data):
            self._piece(piece)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Process units of one chunk."""
        self._piece(Piece(program, header, first, units))

    def event(self, event: Told) -> None:
        """Take an event of a process."""
        ended: list[Source] = []
        if ends_calls(event):
            threads = self._alive.pop(event.pid, {})
            ended = [source for sources in threads.values() for source in sources]
        self._tell_later(event.time_ns, event, ended)
        if isinstance(event, ProcessStart):
            self._starting[event.pid] = self._starting.get(event.pid, 0) + 1
            for sources in self._alive.get(event.pid, {}).values():
                for source in sources:
                    if source.head is not None:
                        self._start_before(source.head, event.pid)

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        """Take the end of a thread."""
        for source in self._alive.get(pid, {}).pop(tid, []):
            self._tell_later(time_ns, time_ns, [source])

    def stop(self, stop: Stop) -> None:
        """Take the end of the recording. Calls that are open then may have returned."""
        tsc = stop.tsc
        if not tsc:
            tsc = max(
                [self._clock.tsc(stop.time_ns), *(source.latest() for source in self._sources())]
            )
        if stop.program is None:
            self._stop = tsc
        self._number += 1
        heappush(self._told, (tsc, self._number, self._number, stop, []))

    def _sources(self) -> list[Source]:
        """Return the threads that have not ended."""
        return [
            source
            for threads in self._alive.values()
            for sources in threads.values()
            for source in sources
        ]

    def _tell_later(self, time_ns: int, what: Told | int, ended: list[Source]) -> None:
        """Queue an event. Later units with ids of `ended` threads belong to new threads."""
        # What they did before that has arrived, but clocks are not exact.
        latest = [source.latest() for source in ended]
        tsc = max(self._clock.tsc(time_ns), self._stop, self._until, *latest)
        for source in ended:
            del self._by_thread[source.thread.key]
        self._number += 1
        heappush(self._told, (tsc, self._number, self._number, what, ended))

    def _start_before(self, head: Item, pid: int) -> None:
        """Move the waiting starts of a process, and of its ancestors, in front of its record.

        A process records nothing before its start. But a start has the time of another clock than
        records have. The two differ by milliseconds if a clock pair was read slowly, above all
        while there are few pairs.
        """
        place, number = head[:2]
        pids, late = {pid}, []
        for told in sorted(self._told, reverse=True):
            what = told[3]
            if told[:2] < (place, number):
                break
            if isinstance(what, ProcessStart) and what.pid in pids:
                late.append(told)
                if what.parent is not None:
                    pids.add(what.parent)
        if not late:
            return
        kept = [told for told in self._told if told not in late]
        for _, _, _, what, ended in reversed(late):
            self._number += 1
            at = max([place, *(source.latest() for source in ended)])
            kept.append((at, number - 0.5, self._number, what, ended))
        heapify(kept)
        self._told = kept

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take what the agent has dropped so far."""
        self._losses.dropped(program, tsc, totals)

    def spoiled(self, program: int, count: int) -> None:
        """Take the number of records and counters that a program has overwritten so far."""
        self._losses.spoil(program, count)

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        """Take a loss of records that could not be written to a file."""
        self._losses.lost(start, end, entries, exits)

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take a clock pair. Events up to pairs that are `HOLD` older are in order now."""
        self._losses.tick(tsc)
        self._clock.add(tsc, realtime, monotonic)
        self._until = max(self._until, _older(self._ticks, tsc, monotonic))
        self.tick(tsc, monotonic)

    def tick(self, tsc: int, monotonic: int) -> None:
        """Record that everything up to `tsc` has arrived."""
        self._passed = max(self._passed, _older(self._lately, tsc, monotonic))

    @property
    def behind(self) -> int:
        """Return the bytes of units that are not decoded yet."""
        return self._waiting[0]

    def calls_left(self) -> int:
        """Return how many calls wait whose entry was not returned yet."""
        return sum([source.calls_left() for _, _, source in self._heap])

    @property
    def told_until(self) -> int:
        """Return the time (ns) up to which all events have been taken, 0 while some wait."""
        if any(heap and heap[0][0] <= self._passed for heap in (self._heap, self._told)):
            return 0
        return self._clock.time_ns(self._passed)

    def take(self, most: int | None = None) -> list[Event]:
        """Return events that are in order, about `most` of them."""
        self._process(self._until, most)
        out, self._out = self._out, []
        return out

    def let_go(self) -> None:
        """Pass on everything that waits, because the input is complete."""
        self._until = _FOREVER

    def finish(self) -> list[Event]:
        """Return all remaining events, as the input is complete."""
        self.let_go()
        self._process(_FOREVER, None)
        for pid, threads in self._alive.items():
            if pid in self._dead:  # units that came late
                for source in (source for sources in threads.values() for source in sources):
                    time_ns = max(self._clock.time_ns(source.last), self._latest)
                    self._close(source, self._dead[pid], source.last, time_ns)
        for count, why in self._losses.messages():
            self._out.append(Dropped(count, why))
        return self.take()

    # ---- pieces ----

    def _piece(self, piece: Piece) -> None:
        if self._over:
            return
        key = piece.program, piece.pid, piece.tid
        source = self._by_thread.get(key)
        if source is None:
            thread = self._pairing.thread(key)
            source = self._by_thread[key] = Source(
                thread, self.programs[piece.program], self._waiting
            )
            self._alive.setdefault(piece.pid, {}).setdefault(piece.tid, []).append(source)
        elif piece.flags & layout.CHUNK_RETURNED:
            self._returned(source, piece)
            return
        elif piece.seq != source.seq or piece.first != source.expected:
            # Between two chunks a thread may have had none, and lost records.
            whole = piece.first == 0 and piece.seq != source.seq
            self._number += 1
            source.put(self._number, (source.full, piece.tsc) if whole else (), self._until)
        source.seq = piece.seq
        source.expected = piece.first + len(piece.units) // layout.UNIT
        source.full = piece.tsc_full
        self._put(source, piece.units)

    def _returned(self, source: Source, piece: Piece) -> None:
        """Take the exit of a call whose entry was handed over before."""
        if len(piece.units) == layout.UNIT and piece.units[3] >> 4 == layout.UNIT_WHOLE:
            self._put(source, exit_of(piece.units, source.program))

    def _put(self, source: Source, units: bytes) -> None:
        source.put(self._number, units, self._until)
        self._number += 2 * (len(units) // layout.UNIT) + 1  # a WHOLE unit makes two records
        if source.head is None and (head := source.advance()) is not None:
            if (pid := source.thread.key[1]) in self._starting:
                self._start_before(head, pid)
            self._wait(source)

    def _wait(self, source: Source) -> None:
        head = source.head
        if head is not None:
            heappush(self._heap, (head[0], head[1], source))

    # ---- events in order ----

    def _process(self, until: int, most: int | None) -> None:
        """Process what waits with times up to `until`, until there are `most` events."""
        out = self._out
        heap, told = self._heap, self._told
        enough = _FOREVER if most is None else most
        while len(out) < enough:
            if told and (not heap or told[0][:2] < heap[0][:2]):
                if told[0][0] > until:
                    break
                tsc, _, _, what, ended = heappop(told)
                self._tell(tsc, what, ended)
                if self._over:
                    heap.clear()
                    self._waiting[0] = 0
                continue
            if not heap or heap[0][0] > until:
                break
            source = heappop(heap)[2]
            # Up to the next event of another thread.
            until_time, until_number = min(
                heap[0][:2] if heap else (_FOREVER, 0),
                told[0][:2] if told else (_FOREVER, 0),
                (until + 1, 0),
            )
            head = source.head
            while head is not None and len(out) < enough:
                place, number, kind, record, data, time = head
                if place >= until_time and (place > until_time or number > until_number):
                    break
                if kind == HOLE:
                    source.holes.append((record[0] or time, record[1]) if record else ())
                    head = source.advance()
                    continue
                if source.holes:
                    self._pass_holes(source)
                if self._stretches and kind == layout.UNIT_ENTRY and source.returns_next():
                    calls = self._stretch(source, head, until_time)
                    if calls:
                        enough -= 2 * calls - 1
                        head = source.head
                        continue
                if kind == layout.UNIT_EXIT:
                    self._leave(time, source, record, data)
                else:
                    self._enter(time, source, kind, record, data)
                head = source.advance()
            self._wait(source)

    def _pass_holes(self, source: Source) -> None:
        """Count the real holes. Losses are known when it is the turn of what follows."""
        for span in source.holes:
            if not span or self._losses.within(span[0], span[1]):
                source.thread.holes += 1
        source.holes.clear()

    def _stretch(self, source: Source, head: Item, until: int) -> int:
        """Put whole calls from the head on into one event. Return how many there are.

        All of them end before `until` (tsc). 0 means that the next call needs pairing.
        """
        if source.back and source.back[2] >= until:
            return 0  # the most frequent reason: another thread's call
        tsc = head[3][2]
        piece, gap = self._clock.piece(tsc), self._pairing.gap(source.thread)
        if piece is None or gap is None:
            return 0
        start, end, realtime, rate, _ = piece
        if realtime + int((tsc - start) * rate // 1) < self._latest:
            return 0
        until = min(until, end)
        overhead = source.overhead.next(tsc)
        if overhead is not None:
            until = min(until, overhead)
        low, high, depth = gap
        calls = source.wholes(until, low, high, source.thread.unwound)
        if calls:
            _, pid, tid = source.thread.key
            self._latest = realtime + int((calls[-1][0] + calls[-1][1] - start) * rate // 1)
            self._out.append(Stretch(pid, tid, piece, calls, depth))
        return len(calls)

    def _enter(
        self, time: int, source: Source, kind: int, record: tuple[int, ...], data: bytes
    ) -> None:
        commit, sp, tsc, return_addr, arg0 = record
        program = source.program
        low, high = program.sites
        tail = low <= return_addr < high
        slot = commit & 0xFFF_FFFF
        returns = kind == layout.UNIT_ENTRY
        call, depth, over, before = self._pairing.enter(
            source.thread, slot, sp, tsc, tail=tail, returns=returns
        )
        time_ns = self._clock.time_ns(time)
        if time_ns > self._latest:
            self._latest = time_ns
        elif time_ns:
            time_ns = self._latest
        for gone in over:
            self._end(gone, ENDED_UNWOUND, time_ns, source)
        if tail:  # a tail call returns to its caller's return address
            return_addr = before.payload.return_addr if before is not None else 0
        entry = Entry(
            time_ns,
            source.thread.key[1],
            source.thread.key[2],
            program.slot(slot),
            depth,
            return_addr,
            captured((arg0,), data) if data else Captured((arg0,)),
            not returns,
        )
        call.payload = entry
        call.overhead = source.overhead.before(tsc)
        self._out.append(entry)

    def _leave(self, time: int, source: Source, record: tuple[int, ...], data: bytes) -> None:
        commit, sp, tsc, result, code = record
        slot = commit & 0xFFF_FFFF
        program = source.program
        call, how, over = self._pairing.leave(
            source.thread, slot, sp, twice=program.returns_twice(slot)
        )
        time_ns = self._clock.time_ns(time)
        if time_ns > self._latest:
            self._latest = time_ns
        elif time_ns:
            time_ns = self._latest
        for gone in over:
            self._end(gone, ENDED_UNWOUND, time_ns, source)
        known = program.slot(slot)
        errno = None
        if known.error_rule and program.knows_errno and is_error(known.error_rule, result):
            errno = code & 0xFFFF_FFFF
        duration = None
        if call is not None and call.tsc and tsc:
            ticks = tsc - call.tsc
            if how not in _ELSEWHERE:
                ticks -= source.overhead.before(tsc) - call.overhead
            duration = self._clock.duration_ns(max(ticks, 0), time)
        self._out.append(
            Exit(
                call.payload if call is not None else None,
                time_ns,
                duration,
                result,
                errno,
                captured((), data) if data else NOTHING,
                ENDED_RETURN,
                source.thread.key[1],
                source.thread.key[2],
                known,
            )
        )

    def _end(self, call: pairing.OpenCall, how: str, time_ns: int, source: Source) -> None:
        """End a call whose exit was not seen."""
        entry: Entry = call.payload
        self._out.append(
            Exit(
                entry,
                time_ns,
                None,
                None,
                None,
                NOTHING,
                ENDED_LOST if call.may_be_lost else how,
                source.thread.key[1],
                source.thread.key[2],
                entry.slot,
            )
        )

    # ---- ends ----

    def _close(self, source: Source, how: str, time: int, time_ns: int) -> None:
        if self._over or source.thread.key[0] in self._stopped:
            how = ENDED_LOST
        self._pass_holes(source)
        if source.full and self._losses.within(source.full, max(time, source.full)):
            source.thread.holes += 1  # the thread had no chunk at its end
        for call in self._pairing.end(source.thread):
            self._end(call, how, time_ns, source)

    def _tell(self, tsc: int, what: Told | Stop | int, ended: list[Source]) -> None:
        if isinstance(what, int):  # the end of a thread, for which there is no event
            for source in ended:
                self._close(source, ENDED_EXIT, tsc, max(what, self._latest))
            return
        if isinstance(what, Stop):
            self._end_recording(tsc, what)
            return
        if self._over and isinstance(what, Signal):
            return  # signals are not recorded any more, like calls
        self._latest = what.time_ns = max(what.time_ns, self._latest)
        if isinstance(what, ProcessExit):
            self._dead[what.pid] = how_ended(what)
        elif isinstance(what, ProcessStart):
            self._starting[what.pid] -= 1
            if not self._starting[what.pid]:
                del self._starting[what.pid]
            if what.event != "exec":
                self._dead.pop(what.pid, None)
        for source in ended:
            self._close(source, how_ended(what), tsc, what.time_ns)
        if ends_calls(what):
            self._pairing.forget(what.pid)
        elif isinstance(what, ProcessStart) and what.parent is not None:
            self._pairing.fork(what.parent, what.pid)
        self._out.append(what)

    def _end_recording(self, tsc: int, stop: Stop) -> None:
        if stop.program is not None:
            self._stopped.add(stop.program)
            return
        self._over = True
        time_ns = max(self._clock.time_ns(tsc), self._latest)
        for source in self._sources():
            self._close(source, ENDED_LOST, tsc, time_ns)


def _older(ticks: deque[tuple[int, int]], tsc: int, monotonic: int) -> int:
    """Add a tick, remove ticks that are `HOLD` older, and return the last one's tsc, or 0."""
    last = 0
    while ticks and monotonic - ticks[0][1] >= HOLD:
        last = ticks.popleft()[0]
    ticks.append((tsc, monotonic))
    return last


def batches(recording: RecordingFile, *, stretches: bool = False) -> Iterator[list[Event]]:
    """Decode a recording from its start, with all names that it has at its end."""
    stream = Stream(recording.programs, stretches=stretches)
    for _ in recording.replay(stream):
        while some := stream.take(_SLICE):
            yield some
    stream.let_go()
    while some := stream.take(_SLICE):
        yield some
    yield stream.finish()


def events(recording: RecordingFile) -> Iterator[Event]:
    """Yield the events of a recording, one by one."""
    for batch in batches(recording):
        yield from batch
