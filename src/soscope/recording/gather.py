# SPDX-License-Identifier: Apache-2.0
"""Read the events of a recording window by window, for all threads up to a time.

The events of a window are in order, as in `stream`: all events up to a time after which nothing
earlier will come. So for all threads a window begins where the last one ends, and results for
calls do not depend on where a window ends.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

import numpy as np
import numpy.typing as npt

from soscope.model.call import ENDED_KILLED, ProcessStart
from soscope.recording import pairing
from soscope.recording.arrays import (
    UNITS,
    Events,
    Integers,
    ThreadSpans,
    Units,
    Wholes,
    begun,
    joined,
    units_of,
    units_of_chunks,
)
from soscope.recording.clock import SPACING
from soscope.recording.format import ends_calls, how_ended
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink, Stop, Told
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD = SPACING  # ns that events wait for what was done before them, as in `stream`
FOREVER = (1 << 63) - 1
# indices of `columns.ENDED`
EXIT, KILLED, LOST = 3, 4, 5


class _Piece:
    """Units of one thread that are consecutive in the file.

    `number` is the number of the first unit in the file. The units count as done at `floor` or
    later. `gap` is (full, tsc) if something may be missing before them: it is if anything was
    lost between the two times. With `full` 0 the first time is the thread's last event, and -1
    means that something is missing for certain.
    """

    __slots__ = ("floor", "gap", "key", "known", "number", "units")

    def __init__(self, units: Units, number: int, floor: int, key: int) -> None:
        self.units = units
        self.number = number
        self.floor = floor
        self.key = key  # no unit in it is from before this
        self.gap: tuple[int, int] | None = None
        self.known = False  # whether its overheads have been added


class Thread:
    """One thread of one program. `state` has its open calls, `spans` its overheads.

    `fate` is an index of `columns.ENDED` for the calls that are open at its end. The end is at
    `end` in the order of times (place, number), and `fate` is 0 before.
    """

    __slots__ = ("done", "end", "expected", "fate", "full", "key", "last", "pieces", "seq", "spans",
                 "state", "when")  # fmt: skip

    def __init__(self, key: tuple[int, int, int], state: pairing.PairedThread) -> None:
        self.key = key
        self.state = state
        self.spans = ThreadSpans()
        self.pieces: deque[_Piece] = deque()
        self.seq = 0
        self.expected = 0
        self.full = 0
        self.last = 0  # tsc of its latest event so far
        self.fate = 0
        self.end = 0, 0
        self.when = 0  # tsc of its end as reported
        self.done = 0  # the sum in `selftimes`


class Run:
    """The events of one thread in one window.

    `time` never goes back. `place` is the time by which events are ordered. `holes` counts the
    losses before each event, as one number if there are none in the window.
    """

    __slots__ = ("_bounds", "_numbers", "events", "holes", "place", "thread", "time")

    def __init__(self, thread: Thread, events: Events, pieces: list[_Piece]) -> None:
        self.thread = thread
        self.events = events
        starts = np.cumsum([0, *(len(piece.units) for piece in pieces[:-1])])
        self._bounds: Integers = starts
        self._numbers: Integers = np.array([piece.number for piece in pieces], np.int64) - starts
        self.time: Integers = events.tsc
        if len(events) and (
            events.tsc[0] < thread.last or (events.tsc[1:] < events.tsc[:-1]).any()
        ):
            self.time = np.maximum.accumulate(np.maximum(events.tsc, thread.last))
        self.place = self.time
        floor = max(piece.floor for piece in pieces)
        if len(events) and self.time[0] < floor:
            floors = np.array([piece.floor for piece in pieces], np.int64)
            self.place = np.maximum(self.time, floors[self.piece_of(slice(None))])
        self.holes: Integers | int = 0

    def __len__(self) -> int:
        return len(self.events)

    def piece_of(self, which: slice | Integers) -> Integers:
        """Return the index of the piece that contains each event."""
        at = self.events.at[which]
        return np.searchsorted(self._bounds, at, side="right") - 1

    def numbers(self, which: slice | Integers) -> Integers:
        """Return the numbers of the events' units, in the order of the file."""
        return self.events.at[which] + self._numbers[self.piece_of(which)]

    def stacks(self) -> npt.NDArray[np.uint32]:
        """Return the number of each event's stack, 0 if it has none."""
        return self.events.stacks(self._bounds)

    def keep(self, chosen: slice | np.ndarray) -> None:
        """Keep only the chosen events."""
        self.events.keep(chosen)
        self.time, self.place = self.time[chosen], self.place[chosen]

    def holes_at(self, which: Integers) -> Integers:
        """Return the number of losses before each event."""
        if isinstance(self.holes, int):
            return np.full(len(which), self.holes, np.int64)
        return self.holes[which]


class Gatherer(Sink):
    """Takes a replayed recording, with the same bookkeeping as in `stream`."""

    def __init__(self, recording: RecordingFile) -> None:
        self._recording = recording
        self._wholes: dict[int, Wholes] = {}  # one for each program
        self._groups: dict[tuple[int, int], pairing.Pairing] = {}
        self._current: dict[tuple[int, int, int], Thread] = {}
        self._busy: dict[Thread, None] = {}  # threads with pieces
        self._ended: list[Thread] = []  # ended threads that were not returned yet
        self._stop: Stop | None = None
        self._stopped: set[int] = set()  # programs whose recording has ended
        self._dead: dict[int, int] = {}
        self._number = 0  # number of the next unit
        self._ticks: deque[tuple[int, int, int]] = deque()  # tsc, monotonic, units before it
        self._until = 0  # events up to this time are in order
        self._below = 0  # number of units read at that time
        self._taken = 0  # units that windows have held
        self._reached = 0  # end of the last window

    # ---- input ----

    def chunks(self, program: int, data: bytes | memoryview) -> None:  # noqa: D102  see `Sink`
        size = layout.CHUNK_SIZE
        pieces = self._expanded(program, units_of_chunks(data), UNITS)
        for row, units in enumerate(pieces):
            header = bytes(data[row * size : row * size + layout.CHUNK_HEADER])
            self._piece(program, header, 0, units, UNITS)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:  # noqa: D102  see `Sink`
        piece = units_of(units)
        expanded = self._expanded(program, piece, len(piece))[0] if len(piece) else piece
        self._piece(program, header, first, expanded, len(piece))

    def _expanded(self, program: int, units: Units, each: int) -> list[Units]:
        """Cut units into pieces, with an entry and an exit in place of each WHOLE unit."""
        wholes = self._wholes.get(program)
        if wholes is None:
            wholes = self._wholes[program] = Wholes(self._recording.programs[program])
        return wholes.expanded(units, each)

    def _piece(self, program: int, header: bytes, first: int, units: Units, size: int) -> None:
        """Take the units of a piece, which has `size` units in the file."""
        seq, tid, pid, tsc, full, flags = layout.CHUNK.struct.unpack(header)[:6]
        key = program, pid, tid
        thread = self._current.get(key)
        gap = None
        if thread is None:
            thread = self._current[key] = Thread(key, self.pairing(key).thread(key))
        elif flags & layout.CHUNK_RETURNED:
            if size == 1:
                self._put(thread, units[1:], None)
            return
        elif seq != thread.seq or first != thread.expected:
            whole = first == 0 and seq != thread.seq
            gap = (thread.full if whole else -1), tsc
        thread.seq = seq
        thread.expected = first + size
        thread.full = full
        if size or gap is not None:
            self._put(thread, units, gap)

    def _put(self, thread: Thread, units: Units, gap: tuple[int, int] | None) -> None:
        """Keep units until their window."""
        size = len(units)
        start = self._until
        if size:
            start = max(start, begun(units[0]))
        if thread.pieces:
            start = max(start, thread.pieces[-1].key)
        piece = _Piece(units, self._number, self._until, min(start, FOREVER))
        piece.gap = gap
        thread.pieces.append(piece)
        self._busy[thread] = None
        self._number += size

    def threads_over(self) -> list[Thread]:
        """Return the threads whose last events have been in windows, each of them once."""
        over = [
            thread for thread in self._ended if not thread.pieces and thread.end[0] <= self._reached
        ]
        self._ended = [thread for thread in self._ended if thread not in over]
        return sorted(over, key=lambda thread: thread.end)

    def pairing(self, key: tuple[int, int, int]) -> pairing.Pairing:
        """Return the open calls of a program and process, which no other process can end."""
        pairs = self._groups.get(key[:2])
        if pairs is None:
            pairs = self._groups[key[:2]] = pairing.Pairing()
        return pairs

    def event(self, event: Told) -> None:  # noqa: D102  see `Sink`
        if ends_calls(event):
            fate = KILLED if how_ended(event) == ENDED_KILLED else EXIT
            if getattr(event, "event", None) != "exec":
                self._dead[event.pid] = fate
            self._end(event.time_ns, fate, [key for key in self._current if key[1] == event.pid])
        elif isinstance(event, ProcessStart):
            self._dead.pop(event.pid, None)

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:  # noqa: D102  see `Sink`
        for key in [key for key in self._current if key[1:] == (pid, tid)]:
            self._end(time_ns, EXIT, [key])

    def _end(self, time_ns: int, fate: int, keys: list[tuple[int, int, int]]) -> None:
        threads = [self._current.pop(key) for key in keys]
        when = self._recording.clock.tsc(time_ns)
        when = max([when, *(self._latest(thread) for thread in threads)])
        stop = self._stop
        if stop is not None and (not stop.tsc or when > stop.tsc):
            fate = LOST
        for thread in threads:
            thread.when = when
            thread.end = max(when, self._until), self._number
            thread.fate = LOST if thread.key[0] in self._stopped else fate
            self._ended.append(thread)

    @staticmethod
    def _latest(thread: Thread) -> int:
        """Return the time of a thread's last event."""
        latest = [int(tsc.max()) for piece in thread.pieces if len(tsc := Events(piece.units).tsc)]
        return max([thread.last, *latest])

    def stop(self, stop: Stop) -> None:  # noqa: D102  see `Sink`
        if stop.program is not None:
            self._stopped.add(stop.program)
        elif self._stop is None:
            self._stop = stop

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:  # noqa: D102  see `Sink`
        del realtime
        ticks = self._ticks
        while ticks and monotonic - ticks[0][1] >= HOLD:
            until, _, self._below = ticks.popleft()
            self._until = max(self._until, until)
        ticks.append((tsc, monotonic, self._number))

    # ---- windows ----

    def windows(self, size: int | None) -> Iterator[list[Run]]:
        """Yield the runs of each window of about `size` units, or of one window if it is None.

        After each one, `threads_over` has the threads that have ended by then.
        """
        if size is not None:
            for _ in self._recording.replay(self):
                while self._below - self._taken >= size:
                    runs = self._window(size)
                    if runs is None:
                        break
                    yield runs
        else:
            for _ in self._recording.replay(self):
                pass  # everything is kept until the end
        self._until = FOREVER
        while self._busy:
            yield self._window(size) or []
        self._reached = FOREVER
        for thread in self._current.values():  # threads that have not ended
            lost = self._stop is not None
            thread.fate = LOST if lost else self._dead.get(thread.key[1], 0)
            thread.when = thread.last
            self._ended.append(thread)
        self._current.clear()
        yield []

    def has_holes_at_end(self, thread: Thread) -> bool:
        """Return whether a thread had no chunk at its end and may have lost events."""
        full = thread.full
        return bool(full) and self._recording.losses.within(full, max(thread.when, full))

    def _window(self, size: int | None) -> list[Run] | None:
        """Take events that are in order from the threads. Return None if there are none."""
        before = self._taken
        bounds = [self._until] if size is None else [self._bound(size), self._until]
        for self._reached in bounds:
            runs = [run for thread in list(self._busy) if (run := self._run(thread)) is not None]
            if runs or self._taken > before:
                return runs
        return None  # later events wait for a later clock pair

    def _bound(self, size: int) -> int:
        """Return a time up to which everything is in order and there are about `size` units."""
        until = self._until
        keys: list[tuple[int, int]] = []
        for thread in self._busy:
            count = 0
            for piece in thread.pieces:
                if piece.key > until:
                    break
                insort(keys, (piece.key, len(piece.units)))
                if count > size:
                    break  # the window ends at this unit, or earlier
                count += len(piece.units)
        total = 0
        for key, count in keys:
            if total >= size:
                return key
            total += count
        return until

    def _run(self, thread: Thread) -> Run | None:
        """Take the events of one thread up to the end of the window, None if there are none."""
        until = self._reached
        pieces: list[_Piece] = []
        waiting = thread.pieces
        while waiting and waiting[0].key <= until:
            pieces.append(waiting.popleft())
        if not pieces:
            return None
        events = Events(joined([piece.units for piece in pieces]))
        overhead = events.overhead
        if pieces[0].known:
            overhead = Events(joined([piece.units for piece in pieces if not piece.known])).overhead
        if len(overhead[0]):
            thread.spans.add(*overhead)
        run = Run(thread, events, pieces)
        count = int(np.searchsorted(run.place, until, side="right"))
        units = sum(len(piece.units) for piece in pieces)
        if count < len(run):
            units = self._put_back(thread, run, count, pieces)
            run.keep(slice(0, count))
        self._taken += units
        if not waiting:
            del self._busy[thread]
        self._find_holes(run, pieces)
        end = self._stop.tsc if self._stop is not None else 0
        if end and len(run) and run.time[-1] > end:
            self._cut(run, end)
        if len(run):
            thread.last = int(run.time[-1])
        return run if len(run) else None

    @staticmethod
    def _put_back(thread: Thread, run: Run, count: int, pieces: list[_Piece]) -> int:
        """Give back the units behind `count` events. Return the number of units before them."""
        cut = int(run.piece_of(slice(count, count + 1))[0])
        before = sum(len(piece.units) for piece in pieces[:cut])
        inside = int(run.events.at[count]) - before
        whole = pieces[cut]
        rest = _Piece(
            whole.units[inside:], whole.number + inside, whole.floor, int(run.place[count])
        )
        if not inside or int(run.piece_of(slice(count - 1, count))[0] if count else -1) != cut:
            rest.gap = whole.gap
            whole.gap = None
        rest.known = True
        for piece in pieces[cut + 1 :]:
            piece.known = True
        thread.pieces.extendleft(reversed([rest, *pieces[cut + 1 :]]))
        del pieces[cut + 1 :]
        return before + inside

    def _find_holes(self, run: Run, pieces: list[_Piece]) -> None:
        losses = self._recording.losses
        thread = run.thread
        behind = 0
        added = None
        for piece in pieces:
            # Mostly a chunk does not follow the thread's previous one directly, and yet nothing
            # was lost.
            if piece.gap is not None and (losses or piece.gap[0] < 0):
                at = int(np.searchsorted(run.events.at, behind))
                full, tsc = piece.gap
                last = int(run.time[at - 1]) if at else thread.last
                if full < 0 or losses.within(full or last, tsc):
                    if added is None:
                        added = np.zeros(len(run) + 1, np.int32)
                    added[at] += 1
            behind += len(piece.units)
        run.holes = thread.state.holes
        if added is not None:
            counted = np.cumsum(added) + thread.state.holes
            run.holes = counted[:-1]
            thread.state.holes = int(counted[-1])

    @staticmethod
    def _cut(run: Run, end: int) -> None:
        """Remove the events after the end of the recording."""
        keep = run.time <= end
        run.keep(keep)
        if not isinstance(run.holes, int):
            run.holes = run.holes[keep]
