# SPDX-License-Identifier: Apache-2.0
"""Makes calls of units, one after the other: live from the ring, or from a recording.

Threads hand over their units in pieces; the calls of all threads are put in the order of
their times. A piece that is still to come holds nothing older than the clock pair before the
last one, so events wait for two pairs. Within a thread the order of the units counts, not
their times: a signal may come between reading the clock and taking a place.
"""

from __future__ import annotations

from collections.abc import Iterator

from soscope.model.call import (
    ENDED_EXIT,
    ENDED_KILLED,
    ENDED_LOST,
    ENDED_RETURN,
    ENDED_UNWOUND,
    Dropped,
    Entry,
    Event,
    Exit,
    Process,
    ProcessExit,
)
from soscope.model.capture import NOTHING, Captured
from soscope.model.slot import is_error
from soscope.recording import pairing
from soscope.recording.captures import captured
from soscope.recording.clock import Clock
from soscope.recording.losses import Losses
from soscope.recording.names import Program, Programs
from soscope.recording.overhead import Overhead
from soscope.recording.sink import Sink, Told
from soscope.recording.units import Piece, pieces_of, records_of
from soscope.wire import layout

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from soscope.recording.reader import Recording

_THREAD_END = 16  # kinds of pending items beside the unit types
_TOLD = 17
_ELSEWHERE = {pairing.MOVED, pairing.INHERITED}  # the entry is another thread's


class _State:
    """What the stream keeps of a thread beside its stacks."""

    __slots__ = ("expected", "full", "last", "overhead", "program", "seq", "thread")

    def __init__(self, thread: pairing.Thread, program: Program) -> None:
        self.thread = thread
        self.program = program
        self.overhead = Overhead()
        self.last = 0  # the latest time so far
        self.seq = 0  # of its current chunk
        self.expected = 0  # number of the next unit in it
        self.full = 0  # when that was given back


class Stream(Sink):
    """Decodes what it is fed; `take` returns the events that are in order by now.

    `clock` converts times; without one it uses the pairs it is fed.
    """

    __slots__ = (
        "_alive",
        "_by_thread",
        "_clock",
        "_dead",
        "_given",
        "_losses",
        "_out",
        "_pairing",
        "_pending",
        "_serial",
        "_tick",
        "programs",
    )

    def __init__(self, clock: Clock | None = None, programs: Programs | None = None) -> None:
        self.programs = programs or Programs()
        self._given = programs is not None
        self._clock = clock or Clock()
        self._pairing = pairing.Pairing()
        self._losses = Losses()
        self._by_thread: dict[tuple[int, int, int], _State] = {}
        self._alive: dict[int, dict[int, list[_State]]] = {}  # by pid and tid
        # (time, number, kind, state, what): sorted by time, then by number
        self._pending: list[tuple[int, int, int, _State | None, object]] = []
        self._serial = 0
        self._tick = 0
        self._dead: dict[int, str] = {}  # pid -> how its open calls end
        self._out: list[Event] = []

    # ---- what it is fed ----

    def program(self, index: int, facts: dict[str, object]) -> None:
        """Take what is known of a program."""
        self.programs[index].facts = facts

    def table(self, kind: int, program: int, first: int, data: bytes) -> None:
        """Take images, slots or strings."""
        if not self._given:
            self.programs[program].add(kind, first, data)

    def chunks(self, program: int, data: bytes) -> None:
        """Take whole chunks."""
        for piece in pieces_of(program, data):
            self._piece(piece)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Take units of one chunk."""
        self._piece(Piece(program, header, first, units))

    def event(self, event: Told) -> None:
        """Take what happened to a process."""
        tsc = self._clock.tsc(event.time_ns)
        states: list[_State] = []
        if ends_calls(event):
            # everything it did before has been fed; clocks are less exact than that
            threads = self._alive.pop(event.pid, {})
            states = [state for found in threads.values() for state in found]
            self._forget(states)
            tsc = max([tsc, *(state.last for state in states)])
        self._queue(tsc, _TOLD, None, (event, states))

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        """Take the end of a thread."""
        states = self._alive.get(pid, {}).pop(tid, [])
        self._forget(states)
        for state in states:
            tsc = max(self._clock.tsc(time_ns), state.last)
            self._queue(tsc, _THREAD_END, state, time_ns)

    def _forget(self, states: list[_State]) -> None:
        """Let units that still come be those of another thread of the same id."""
        for state in states:
            del self._by_thread[state.thread.key]

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        """Take what the agent has dropped so far."""
        self._losses.dropped(program, tsc, totals)

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        """Take what a file could not take."""
        self._losses.lost(start, end, entries, exits)

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take a clock pair: events up to the one before are in order now."""
        self._losses.tick(tsc)
        if not self._given:
            self._clock.add(tsc, realtime, monotonic)
        if self._pending:
            self._process(self._tick)
        self._tick = max(tsc, self._tick)

    def take(self) -> list[Event]:
        """Return the events that are in order, and forget them."""
        out, self._out = self._out, []
        return out

    def finish(self) -> list[Event]:
        """Return all remaining events: nothing more is fed."""
        self._process(None)
        for pid, threads in self._alive.items():
            if pid in self._dead:  # what came late
                for state in (state for found in threads.values() for state in found):
                    self._close(state, self._dead[pid], state.last, self._clock.time_ns(state.last))
        for count, why in self._losses.messages():
            self._out.append(Dropped(count, why))
        return self.take()

    # ---- pieces ----

    def _queue(self, tsc: int, kind: int, state: _State | None, what: object) -> None:
        self._serial += 1
        self._pending.append((tsc, self._serial, kind, state, what))

    def _piece(self, piece: Piece) -> None:
        key = piece.program, piece.pid, piece.tid
        state = self._by_thread.get(key)
        if state is None:
            thread = self._pairing.thread(key)
            state = self._by_thread[key] = _State(thread, self.programs[piece.program])
            self._alive.setdefault(piece.pid, {}).setdefault(piece.tid, []).append(state)
        elif piece.seq != state.seq or piece.first != state.expected:
            # Between two chunks a thread may have gone without, and lost something.
            span = state.full or state.last, piece.tsc
            whole = piece.first == 0 and piece.seq != state.seq
            self._queue(state.last, 0, state, span if whole else None)
        state.seq = piece.seq
        state.expected = piece.first + len(piece.units) // layout.UNIT
        state.full = piece.tsc_full
        last = state.last
        serial = self._serial
        pending = self._pending
        for kind, record, data in records_of(piece.units):
            tsc = record[2]
            if kind == layout.UNIT_OVERHEAD:
                state.overhead.add(tsc, record[3])
                continue
            if tsc > last:  # noqa: PLR1730  a call of max costs as much as all the rest
                last = tsc
            serial += 1
            pending.append((last, serial, kind, state, (record, data)))
        state.last = last
        self._serial = serial

    # ---- events in order ----

    def _process(self, until: int | None) -> None:
        """Handle what is pending with times up to `until`."""
        pending = self._pending
        pending.sort()  # no two have the same number: nothing behind it is compared
        end = len(pending)
        if until is not None:
            while end and pending[end - 1][0] > until:
                end -= 1
        self._pending = pending[end:]
        touched = set()
        for tsc, _, kind, state, what in pending[:end]:
            if state is None:
                self._tell(tsc, *what)  # type: ignore[misc]
            elif kind == layout.UNIT_EXIT:
                self._leave(tsc, state, *what)  # type: ignore[misc]
            elif kind == 0:
                if what is None or self._losses.within(*what):  # type: ignore[misc]
                    state.thread.holes += 1
            elif kind == _THREAD_END:
                self._close(state, ENDED_EXIT, tsc, what)  # type: ignore[arg-type]
            else:
                self._enter(tsc, state, kind, *what)  # type: ignore[misc]
                touched.add(state)
        if until is not None:
            for state in touched:
                state.overhead.forget(until)

    def _enter(
        self, time: int, state: _State, kind: int, record: tuple[int, ...], data: bytes
    ) -> None:
        commit, sp, tsc, return_addr, arg0 = record
        program = state.program
        low, high = program.sites
        tail = low <= return_addr < high
        slot = commit & 0xFFF_FFFF
        returns = kind == layout.UNIT_ENTRY
        call, depth, over, before = self._pairing.enter(
            state.thread, slot, sp, tsc, tail=tail, returns=returns
        )
        time_ns = self._clock.time_ns(time)
        for gone in over:
            self._end(gone, ENDED_UNWOUND, time_ns, state)
        if tail:  # it returns to where its caller would have
            return_addr = before.payload.return_addr if before is not None else 0
        entry = Entry(
            time_ns,
            state.thread.key[1],
            state.thread.key[2],
            program.slot(slot),
            depth,
            return_addr,
            captured((arg0,), data) if data else Captured((arg0,)),
            not returns,
        )
        call.payload = entry
        call.overhead = state.overhead.before(tsc)
        self._out.append(entry)

    def _leave(self, time: int, state: _State, record: tuple[int, ...], data: bytes) -> None:
        commit, sp, tsc, result, code = record
        slot = commit & 0xFFF_FFFF
        program = state.program
        call, how, over = self._pairing.leave(
            state.thread, slot, sp, twice=program.returns_twice(slot)
        )
        time_ns = self._clock.time_ns(time)
        for gone in over:
            self._end(gone, ENDED_UNWOUND, time_ns, state)
        known = program.slot(slot)
        errno = None
        if known.error_rule and program.knows_errno and is_error(known.error_rule, result):
            errno = code & 0xFFFF_FFFF
        duration = None
        if call is not None and call.tsc and tsc:
            ticks = tsc - call.tsc
            if how not in _ELSEWHERE:
                ticks -= state.overhead.before(tsc) - call.overhead
            duration = self._clock.duration_ns(max(ticks, 0))
        self._out.append(
            Exit(
                call.payload if call is not None else None,
                time_ns,
                duration,
                result,
                errno,
                captured((), data) if data else NOTHING,
                ENDED_RETURN,
                state.thread.key[1],
                state.thread.key[2],
                known,
            )
        )

    def _end(self, call: pairing.Call, how: str, time_ns: int, state: _State) -> None:
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
                state.thread.key[1],
                state.thread.key[2],
                entry.slot,
            )
        )

    # ---- ends ----

    def _close(self, state: _State, how: str, time: int, time_ns: int) -> None:
        if state.full and self._losses.within(state.full, max(time, state.full)):
            state.thread.holes += 1  # it went without a chunk at the end
        for call in self._pairing.end(state.thread):
            self._end(call, how, time_ns, state)

    def _tell(self, tsc: int, event: Told, states: list[_State]) -> None:
        if isinstance(event, ProcessExit):
            self._dead[event.pid] = how_ended(event)
        elif isinstance(event, Process) and event.event != "exec":
            self._dead.pop(event.pid, None)
        for state in states:
            self._close(state, how_ended(event), tsc, event.time_ns)
        self._out.append(event)


def ends_calls(event: Told) -> bool:
    """Say whether `event` ends the open calls of its process."""
    return isinstance(event, ProcessExit) or (isinstance(event, Process) and event.event == "exec")


def how_ended(event: Told) -> str:
    """Return how calls end that are open at `event`."""
    killed = isinstance(event, ProcessExit) and event.signal is not None
    return ENDED_KILLED if killed else ENDED_EXIT


def events(recording: Recording) -> Iterator[Event]:
    """Decode a recording from its start; what is known at its end is known from the start."""
    stream = Stream(recording.clock, recording.programs)
    for _ in recording.replay(stream):
        yield from stream.take()
    yield from stream.finish()
