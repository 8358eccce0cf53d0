# SPDX-License-Identifier: Apache-2.0
"""Decodes units into calls, one after the other: live from the ring, or from a recording.

Threads hand over their units in pieces. The calls of all threads are put in the order of their
times. Most of what is handed over after a clock pair happened after the pair before it, but a
thread may lose its processor between reading the clock and writing its record. So events wait
until a pair is `HOLD` old. Events that come later still get the time of the latest event that was
returned. Within a thread the order of the units counts, not their times, as a signal may come
between reading the clock and taking a place.

The events depend only on the order of the input, never on the moments at which `take` is called.
A recording that is read again gives the same events, with the same times.
"""

from __future__ import annotations

from heapq import heappop, heappush

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
)
from soscope.model.image import is_error
from soscope.recording import pairing
from soscope.recording.captures import captured
from soscope.recording.clock import SPACING, Clock
from soscope.recording.ends import ends_calls, how_ended
from soscope.recording.losses import Losses
from soscope.recording.names import Programs
from soscope.recording.sink import Sink, Stop, Told
from soscope.recording.source import HOLE, Item, Source
from soscope.recording.units import Piece, exit_of, pieces_of
from soscope.wire import layout

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator

    from soscope.recording.reader import RecordingFile
else:
    from _collections import deque  # so is `collections`

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
        # A heap, too: (time, number, event, the threads that it ended).
        self._told: list[tuple[int, int, Told | Stop | int, list[Source]]] = []
        self._number = 0
        self._ticks: deque[tuple[int, int]] = deque()  # tsc, monotonic; younger than HOLD
        self._until = 0  # events up to this time are in order
        self._lately: deque[tuple[int, int]] = deque()  # like `_ticks`, with those of `tick`
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
        heappush(self._told, (tsc, self._number, stop, []))

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
        heappush(self._told, (tsc, self._number, what, ended))

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take what the agent has dropped so far."""
        self._losses.dropped(program, tsc, totals)

    def spoiled(self, program: int, count: int) -> None:
        """Take how much a program has overwritten so far."""
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
        """Take note that everything up to `tsc` has arrived."""
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
        """Take note that the input is complete, so everything that waits is in order."""
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
        if source.head is None and source.advance() is not None:
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
                tsc, _, what, ended = heappop(told)
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
        elif isinstance(what, ProcessStart) and what.event != "exec":
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
