# SPDX-License-Identifier: Apache-2.0
"""Reads the events of a whole recording into numpy arrays, by thread."""

from __future__ import annotations

from typing import Any

import numpy as np  # noqa: TID253  only `columns` imports this
import numpy.typing as npt  # noqa: TID253

from soscope.model.call import ENDED_KILLED, Process
from soscope.recording.ends import ends_calls, how_ended
from soscope.recording.losses import Losses
from soscope.recording.names import Programs
from soscope.recording.pairing import REACH
from soscope.recording.reader import Recording
from soscope.recording.sink import Sink, Told
from soscope.wire import layout

Integers = npt.NDArray[np.signedinteger[Any]]

_UNIT = np.dtype([("commit", "<u4"), ("sp", "<u4"), ("tsc", "<u8"), ("a", "<u8"), ("b", "<u8")])
_HEADER_UNITS = layout.CHUNK_HEADER // layout.UNIT
_CHUNK_UNITS = layout.CHUNK_SIZE // layout.UNIT
# indices of `columns.ENDED`
_EXIT, _KILLED = 3, 4


class _Thread:
    __slots__ = ("ends", "expected", "full", "key", "number", "seq")

    def __init__(self, number: int, key: tuple[int, int, int]) -> None:
        self.number = number
        self.key = key
        self.seq = 0
        self.expected = 0
        self.full = 0
        self.ends: tuple[int, int] | None = None  # fate, index of the end


class _Collector(Sink):
    """Takes what a recording replays; the same bookkeeping as in `stream`."""

    def __init__(self) -> None:
        self.losses = Losses()
        self.units: list[npt.NDArray[Any]] = []
        self.threads: list[_Thread] = []
        self.pieces: list[tuple[int, int]] = []  # thread number, events and overheads in it
        # (piece, thread, full, tsc): in front of it there is a hole if anything was lost
        # between the two; full 0: since the thread's last event, -1: for certain
        self.gaps: list[tuple[int, int, int, int]] = []
        self.ends: list[tuple[int, list[int]]] = []  # time_ns, threads
        self.dead: dict[int, int] = {}
        self.forks: list[tuple[int, int, int]] = []  # time_ns, child, parent
        self._current: dict[tuple[int, int, int], _Thread] = {}

    def chunks(self, program: int, data: bytes) -> None:
        table = np.frombuffer(data, _UNIT).reshape(-1, _CHUNK_UNITS)[:, _HEADER_UNITS:]
        wanted = _wanted(table)
        self.units.append(table[wanted])
        size = layout.CHUNK_SIZE
        for chunk, count in enumerate(wanted.sum(axis=1).tolist()):
            header = data[chunk * size : chunk * size + layout.CHUNK_HEADER]
            self._piece(program, header, 0, _CHUNK_UNITS - _HEADER_UNITS, count)

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        table = np.frombuffer(units, _UNIT)
        wanted = table[_wanted(table)]
        self.units.append(wanted)
        self._piece(program, header, first, len(table), len(wanted))

    def _piece(self, program: int, header: bytes, first: int, size: int, count: int) -> None:
        seq, tid, pid, tsc, full = layout.CHUNK.struct.unpack(header)[:5]
        key = program, pid, tid
        thread = self._current.get(key)
        if thread is None:
            thread = self._current[key] = _Thread(len(self.threads), key)
            self.threads.append(thread)
        elif seq != thread.seq or first != thread.expected:
            whole = first == 0 and seq != thread.seq
            before = thread.full if whole else -1
            self.gaps.append((len(self.pieces), thread.number, before, tsc))
        thread.seq = seq
        thread.expected = first + size
        thread.full = full
        self.pieces.append((thread.number, count))

    def event(self, event: Told) -> None:
        if ends_calls(event):
            fate = _KILLED if how_ended(event) == ENDED_KILLED else _EXIT
            if getattr(event, "event", None) != "exec":
                self.dead[event.pid] = fate
            self._end(event.time_ns, fate, [key for key in self._current if key[1] == event.pid])
        elif isinstance(event, Process):
            self.dead.pop(event.pid, None)
            if event.parent is not None:
                self.forks.append((event.time_ns, event.pid, event.parent))

    def thread_end(self, time_ns: int, pid: int, tid: int) -> None:
        for key in [key for key in self._current if key[1:] == (pid, tid)]:
            self._end(time_ns, _EXIT, [key])

    def _end(self, time_ns: int, fate: int, keys: list[tuple[int, int, int]]) -> None:
        threads = [self._current.pop(key) for key in keys]
        for thread in threads:
            thread.ends = fate, len(self.ends)
        self.ends.append((time_ns, [thread.number for thread in threads]))

    def dropped(self, program: int, tsc: int, totals: tuple[int, ...]) -> None:
        self.losses.dropped(program, tsc, totals)

    def lost(self, start: int, end: int, entries: int, exits: int) -> None:
        self.losses.lost(start, end, entries, exits)

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        del realtime, monotonic
        self.losses.tick(tsc)


def _wanted(table: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    kind = table["commit"] >> 28
    known = (kind > 0) & (kind <= layout.UNIT_OVERHEAD)
    return np.asarray(known & (kind != layout.UNIT_DATA), np.bool_)


class Collected:
    """The entries and exits of a recording, in the order of the file.

    Arrays by event: kind (unit type), slot, sp, tsc, first (return address or result), second
    (argument or errno), thread (number), time (tsc that never goes back within a thread),
    stack (number), tail, twice, holes (losses in its thread before it). Arrays by thread:
    thread_program, _pid, _tid, _group (number of its program and pid), _fate (index of
    `columns.ENDED`, 0 = alive), _holes (losses up to its end).

    `forks` are (tsc, child, parent) by time.
    """

    def __init__(self, recording: Recording, found: _Collector) -> None:
        self.programs: Programs = recording.programs
        units = np.concatenate(found.units) if found.units else np.zeros(0, _UNIT)
        found.units.clear()
        pieces = np.array(found.pieces, np.int64).reshape(-1, 2)
        # 32 bits and less where they do: a recording has hundreds of millions of these
        piece = np.repeat(np.arange(len(pieces), dtype=np.int32), pieces[:, 1])
        kind = (units["commit"] >> 28).astype(np.int8)
        overhead = kind == layout.UNIT_OVERHEAD
        self._overhead = _overhead(pieces[piece[overhead], 0], units[overhead])
        units, piece, self.kind = units[~overhead], piece[~overhead], kind[~overhead]
        self.slot: Integers = (units["commit"] & 0xFFF_FFFF).astype(np.int32)
        self.sp: Integers = units["sp"].astype(np.int64)
        self.tsc: Integers = units["tsc"].astype(np.int64)
        self.first: npt.NDArray[np.uint64] = units["a"].astype(np.uint64)
        self.second: npt.NDArray[np.uint64] = units["b"].astype(np.uint64)
        del units
        self.thread: Integers = pieces[:, 0].astype(np.int32)[piece]
        keys = np.array([thread.key for thread in found.threads], np.int64).reshape(-1, 3)
        self.thread_program: Integers = keys[:, 0]
        self.thread_pid: Integers = keys[:, 1]
        self.thread_tid: Integers = keys[:, 2]
        _, group = np.unique(keys[:, :2], axis=0, return_inverse=True)
        self.thread_group: Integers = group.reshape(-1).astype(np.int64)
        self.forks = sorted(
            (recording.clock.tsc(time_ns), child, parent) for time_ns, child, parent in found.forks
        )
        self._by_thread(len(keys))
        self._holes(recording, found, piece, pieces[:, 0])
        self._flags()

    def _by_thread(self, threads: int) -> None:
        """Set `time` and `stack`."""
        order = np.argsort(self.thread, kind="stable")
        bounds = np.searchsorted(self.thread[order], np.arange(threads + 1))
        time = self.tsc[order]
        stack = np.zeros(len(order), np.int32)
        sp = self.sp[order]
        self._odd = []
        self._last = [0] * threads
        stacks = 0
        for thread in range(threads):
            here = slice(int(bounds[thread]), int(bounds[thread + 1]))
            if here.start == here.stop:
                continue
            np.maximum.accumulate(time[here], out=time[here])
            self._last[thread] = int(time[here.stop - 1])
            which, count = _stacks(sp[here])
            if count == 0:
                self._odd.append(thread)
                count = 1
            stack[here] = which + stacks
            stacks += count
        self.time: Integers = np.empty_like(time)
        self.time[order] = time
        self.stack: Integers = np.empty_like(stack)
        self.stack[order] = stack

    def odd_threads(self) -> list[int]:
        """Return the threads whose addresses do not fall into stacks clearly."""
        return self._odd

    def _holes(
        self, recording: Recording, found: _Collector, piece: Integers, thread_of: Integers
    ) -> None:
        """Set `holes`, `thread_holes` and `thread_fate`."""
        losses = found.losses
        threads = len(found.threads)
        total = [0] * threads
        before = np.zeros(len(thread_of), np.int64)
        last = self._last_before(piece, thread_of) if losses else {}
        for number, thread, full, tsc in found.gaps:
            if full < 0 or (losses and losses.within(full or last.get(number, 0), tsc)):
                before[number] += 1
                total[thread] += 1
        # a thread's holes add up over its pieces
        order = np.argsort(thread_of, kind="stable")
        added = np.cumsum(before[order])
        starts = np.searchsorted(thread_of[order], np.arange(threads))
        base = added[starts] - before[order][starts] if threads else added
        counted = np.empty_like(before)
        counted[order] = added - base[thread_of[order]] if threads else added
        self.holes: Integers = counted.astype(np.int32)[piece]
        fates = [0] * threads
        for one in found.threads:
            number = one.number
            time = self._last[number]
            if one.ends is not None:
                fates[number], end = one.ends
                time_ns, ended = found.ends[end]
                time = max([recording.clock.tsc(time_ns), *(self._last[at] for at in ended)])
            else:
                fates[number] = found.dead.get(one.key[1], 0)
            if one.full and losses.within(one.full, max(time, one.full)):
                total[number] += 1
        self.thread_fate: Integers = np.array(fates, np.int64)
        self.thread_holes: Integers = np.array(total, np.int64)

    def _last_before(self, piece: Integers, thread_of: Integers) -> dict[int, int]:
        """Return by piece the time of its thread's last event in front of it."""
        ends = np.searchsorted(piece, np.arange(len(thread_of)), side="right")
        latest: dict[int, int] = {}  # by thread
        found = {}
        begin = 0
        for number, (thread, end) in enumerate(zip(thread_of.tolist(), ends.tolist(), strict=True)):
            found[number] = latest.get(thread, 0)
            if end > begin:
                latest[thread] = int(self.time[end - 1])
            begin = end
        return found

    def _flags(self) -> None:
        """Set `tail` and `twice`."""
        self.tail: npt.NDArray[np.bool_] = np.zeros(len(self.kind), np.bool_)
        self.twice: npt.NDArray[np.bool_] = np.zeros(len(self.kind), np.bool_)
        program = self.thread_program[self.thread]
        for index in np.unique(program).tolist():
            one = self.programs[index]
            here = program == index
            low, high = one.sites
            if high:
                inside = (self.first >= np.uint64(low)) & (self.first < np.uint64(high))
                self.tail |= here & inside & (self.kind != layout.UNIT_EXIT)
            slots = np.unique(self.slot[here & (self.kind == layout.UNIT_EXIT)])
            twice = [slot for slot in slots.tolist() if one.returns_twice(slot)]
            if twice:
                self.twice |= here & (self.kind == layout.UNIT_EXIT) & np.isin(self.slot, twice)

    def overhead_within(self, thread: Integers, start: Integers, end: Integers) -> Integers:
        """Return the ticks of overheads of each thread that began in [start, end)."""
        ticks = np.zeros(len(thread), np.int64)
        if not self._overhead or not len(thread):
            return ticks
        order = np.argsort(thread, kind="stable")
        numbers, starts = np.unique(thread[order], return_index=True)
        for number, first, until in zip(
            numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True
        ):
            spans = self._overhead.get(number)
            if spans is not None:
                here = order[first:until]
                begun, added = spans
                upto = added[np.searchsorted(begun, end[here], side="left")]
                ticks[here] = upto - added[np.searchsorted(begun, start[here], side="left")]
        return ticks


def _stacks(sp: Integers) -> tuple[Integers, int]:
    """Return the number of the stack that each event of a thread belongs to, and how many.

    0 stacks where following the events one by one could find others than these: addresses
    belong together that lie at most REACH from each other.
    """
    if int(sp.max()) - int(sp.min()) <= REACH:
        return np.zeros(len(sp), np.int64), 1
    known = np.unique(sp)
    group = np.concatenate([[0], np.cumsum(np.diff(known) > REACH)])
    which = group[np.searchsorted(known, sp)]
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(int(group[-1]) + 2))
    for first, until in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        mine = sp[order[first:until]]
        low = np.minimum.accumulate(mine)[:-1]
        high = np.maximum.accumulate(mine)[:-1]
        if ((mine[1:] < low - REACH) | (mine[1:] > high + REACH)).any():
            return np.zeros(len(sp), np.int64), 0
    return which, int(group[-1]) + 1


def _overhead(thread: Integers, units: npt.NDArray[Any]) -> dict[int, tuple[Integers, Integers]]:
    """Return by thread (tsc of the spans, ticks of all spans before each, and of all)."""
    found = {}
    for number in np.unique(thread).tolist():
        mine = units[thread == number]
        tsc = mine["tsc"].astype(np.int64)
        order = np.argsort(tsc, kind="stable")
        ticks = mine["a"].astype(np.int64)[order]
        found[number] = tsc[order], np.concatenate([[0], np.cumsum(ticks)])
    return found


def collect(recording: Recording) -> Collected:
    """Read the events of a recording, up to its damage."""
    found = _Collector()
    for _ in recording.replay(found):
        pass  # the collector keeps what it is given
    return Collected(recording, found)
