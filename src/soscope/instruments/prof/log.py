# SPDX-License-Identifier: Apache-2.0
"""Calls that instrumented code reported one by one (`--mode log`), as columns and as trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.instruments.prof.instrumented import ROOT, CallNode, ReportedCalls, ThreadCalls
from soscope.instruments.prof.timeline import ThreadTimeline
from soscope.recording.columns import Times
from soscope.recording.names import RecordedProgram
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink, Stop
from soscope.recording.units import Piece, pieces_of
from soscope.wire import headers, layout

# The calls are kept in arrays, because objects for millions of calls would take minutes.

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint32]
Booleans = npt.NDArray[np.bool_]

_UNIT = np.dtype(
    [("commit", "<u4"), ("ticks", "<u4"), ("start", "<i8"), ("function", "<i8"), ("around", "<i8")]
)
_Units = npt.NDArray[Any]  # array of _UNIT
_FLAGS = (1 << layout.REPORTED_TICKS) - 1
_HIGH = (0xFFF_FFFF >> layout.REPORTED_TICKS) << layout.REPORTED_TICKS


class ThreadLog:
    """The calls of one thread, in the order in which they began.

    `start` and `ticks` are of the processor's clock and include the time of the hooks. `function`
    and `around` are the same as in `struct sosc_reported`, and `flags` are REPORTED_ flags of
    `layout`. `waits` are (tsc, ticks) of times that the agent, not the program, took for the
    recording. `is_open` tells for each call whether it had not returned at the end. `overwritten`
    is the number of missing calls, whose units were used for other calls.
    """

    def __init__(self, pid: int, tid: int, units: _Units, waits: _Units, is_open: Booleans) -> None:
        self.pid = pid
        self.tid = tid
        ticks = _ticks(units)
        # at equal starts, the longer call contains the other
        order = np.lexsort((-ticks, units["start"]))
        order = _without_doubled(units, ticks, order)
        self.overwritten = len(units) - len(order)
        self.start: Integers = np.ascontiguousarray(units["start"][order])
        self.ticks: Integers = ticks[order]
        self.function: Integers = np.ascontiguousarray(units["function"][order])
        self.around: Integers = np.ascontiguousarray(units["around"][order])
        self.flags: Flags = np.asarray((units["commit"] & _FLAGS)[order], np.uint32)
        self.is_open: Booleans = is_open[order]
        self.waits: tuple[Integers, Integers] = (
            waits["start"].astype(np.int64),
            waits["function"].astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.start)

    def is_seen(self) -> Booleans:
        """Return for each call whether its return could be seen. Other calls have no time."""
        return np.asarray((self.flags & layout.REPORTED_UNSEEN) == 0)


OpenCalls = dict[tuple[int, int], list[tuple[int, ...]]]  # words of units, by pid and tid


def logs_of(
    recording: RecordingFile, still_open: dict[int, OpenCalls]
) -> dict[int, list[ThreadLog]]:
    """Return the calls of each program by its number. `still_open` has calls that are open."""
    taken = _Taken(recording)
    logs: dict[int, list[ThreadLog]] = {}
    keys = set(taken.pieces) | {
        (program, *thread) for program, threads in still_open.items() for thread in threads
    }
    for key in sorted(keys):
        program, pid, tid = key
        units = np.concatenate(taken.pieces.get(key) or [np.zeros(0, _UNIT)])
        kind = units["commit"] >> 28
        calls = units[kind == layout.UNIT_REPORTED]
        opened = [_unit_of(each) for each in still_open.get(program, {}).get((pid, tid), ())]
        is_open = np.arange(len(calls) + len(opened)) >= len(calls)
        calls = np.concatenate([calls, np.array(opened, _UNIT)])
        if taken.until:
            before = calls["start"] < taken.until
            calls, is_open = calls[before], is_open[before]
        if len(calls):
            _tell_apart(calls, recording.programs[program], pid)
            waits = units[kind == layout.UNIT_OVERHEAD]
            logs.setdefault(program, []).append(ThreadLog(pid, tid, calls, waits, is_open))
    return logs


def _tell_apart(calls: _Units, program: RecordedProgram, pid: int) -> None:
    """Add to addresses the image that was there then, if several images were there in turn."""
    moves = np.array(program.moves.times(), np.int64)
    if not len(moves):
        return
    is_root = calls["commit"] & layout.REPORTED_ROOT != 0
    for name, are_addrs in (("function", np.ones(len(calls), np.bool_)), ("around", is_root)):
        addrs = [each for each in np.unique(calls[name][are_addrs]).tolist() if each > 0]
        several = [each for each in addrs if program.needs_time(each)]
        rows = np.flatnonzero(are_addrs & np.isin(calls[name], several))
        # The images do not change between two moves.
        since = np.searchsorted(moves, calls["start"][rows], side="right")
        keys = np.stack([calls[name][rows], since], axis=1)
        distinct, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        starts = calls["start"][rows[first]].tolist()
        words = [
            program.word(addr, pid, start)
            for addr, start in zip(distinct[:, 0].tolist(), starts, strict=True)
        ]
        calls[name][rows] = np.array(words, np.int64)[which.reshape(-1)]


def _ticks(units: _Units) -> Integers:
    high = (units["commit"] & _HIGH).astype(np.int64) << (32 - layout.REPORTED_TICKS)
    return high | units["ticks"].astype(np.int64)


def _without_doubled(units: _Units, ticks: Integers, order: Integers) -> Integers:
    """Return `order` (units by start) without units that were written twice.

    If a signal handler forks while a unit is written, the child writes it, too. Another call may
    use that unit by then, and its ticks stay in the copy, as the child does not write them again.
    """
    sorted_units = units[order]
    flags = sorted_units["commit"] & _FLAGS
    same = (flags & layout.REPORTED_UNSEEN == 0) & (ticks[order] > 0)
    for words in (sorted_units["start"], sorted_units["function"], sorted_units["around"], flags):
        same[1:] &= words[1:] == words[:-1]
    at = np.flatnonzero(same[1:] & (ticks[order[:-1]] > 0))
    stays = np.ones(len(units), np.bool_)
    stays[np.maximum(order[at], order[at + 1])] = False  # the unit written first is right
    return np.asarray(order[stays[order]], np.int64)


def _unit_of(call: tuple[int, ...]) -> tuple[int, ...]:
    commit, start, ticks, function, around = call
    high = ticks >> 32 << layout.REPORTED_TICKS
    return commit | high, ticks & 0xFFFF_FFFF, start, function, around


class _Taken(Sink):
    """The units of logged calls, by program, process and thread."""

    def __init__(self, recording: RecordingFile) -> None:
        self.pieces: dict[tuple[int, int, int], list[_Units]] = {}
        self.until = 0  # tsc at which the recording ends, 0 if it has no end
        self._programs = recording.programs
        for _ in recording.replay(self):
            pass

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        self._add(Piece(program, header, first, units))

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        for piece in pieces_of(program, data):
            self._add(piece)

    def stop(self, stop: Stop) -> None:
        if stop.program is None:
            self.until = stop.tsc

    def _add(self, piece: Piece) -> None:
        self._programs.checked(piece.program)
        units = np.frombuffer(piece.units, _UNIT)
        kind = units["commit"] >> 28
        wanted = (kind == layout.UNIT_REPORTED) | (kind == layout.UNIT_OVERHEAD)
        self.pieces.setdefault((piece.program, piece.pid, piece.tid), []).append(units[wanted])


# Makes trees of call paths from logged calls, like the agent's trees in other modes.
#
# Times are the same as with `--mode time`: no tick is the own time of two calls, whatever stack the
# calls run on.

_FOLD = 64  # depth from which on a recursive function gets no new node; as in the agent
_NONE = -1


def tree_of(log: ThreadLog) -> ThreadCalls:
    """Return the calls of a thread, added up."""
    thread = ThreadCalls(log.pid, log.tid, 1, dropped=log.overwritten, log=log)
    places = _Places(log, thread.nodes)
    start, end = _without_waits(log)
    seen = log.is_seen()
    ticks = np.where(seen, end - start, 0)
    count = len(thread.nodes)
    sums = [
        np.bincount(places.nodes, weights, count).astype(np.int64).tolist()
        for weights in (
            np.ones(len(log)),
            seen,
            np.where(places.is_folded, 0, ticks),
            _own_ticks(start, end, ticks, seen),
        )
    ]
    for node, calls, timed, total, own in zip(thread.nodes, *sums, strict=True):
        node.calls, node.timed, node.total_ticks, node.self_ticks = calls, timed, total, own
        node.unseen = not timed
    return thread


class _Places:
    """Finds the node of each call, and whether a call of the same node is around it."""

    def __init__(self, log: ThreadLog, nodes: list[CallNode]) -> None:
        self.nodes: Integers = np.zeros(len(log), np.int64)
        self.is_folded = np.zeros(len(log), np.bool_)
        self._made = nodes
        self._known: dict[tuple[int, ...], tuple[int, bool]] = {}
        parents = _parents(log)
        is_root = (log.flags & layout.REPORTED_ROOT) != 0
        keys = np.stack(
            [
                np.full(len(log), ROOT),
                log.function,
                np.where(is_root, log.around, 0),
                (log.flags & layout.REPORTED_HOOK).astype(np.int64),
            ],
            axis=1,
        )
        depths = _depths(parents)
        order = np.argsort(depths, kind="stable")
        ends = np.searchsorted(depths[order], np.arange(depths.max(initial=-1) + 2))
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            level = order[first:last]
            above = parents[level]
            keys[level, 0] = np.where(above == _NONE, ROOT, self.nodes[above])
            self._place(level, keys[level])

    def _place(self, level: Integers, keys: Integers) -> None:
        """Find the nodes of the calls of one level, after the calls around them."""
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        placed = [self._node((parent, *key)) for parent, *key in distinct.tolist()]
        which = which.reshape(-1)
        self.nodes[level] = np.array([node for node, _ in placed])[which]
        self.is_folded[level] = np.array([folded for _, folded in placed])[which]

    def _node(self, key: tuple[int, ...]) -> tuple[int, bool]:
        known = self._known.get(key)
        if known is None:
            parent, function, caller, hook = key
            around = self._around(parent, function)
            if around == ROOT:
                known = len(self._made), False
                self._made.append(CallNode(parent, function, caller, function, hook))
            else:
                known = around, True
            self._known[key] = known
        return known

    def _around(self, parent: int, function: int) -> int:
        """Return the node of the same function around a new deep node, else ROOT."""
        same = ROOT
        for _ in range(_FOLD + 1):
            if parent == ROOT:
                return ROOT
            node = self._made[parent]
            if same == ROOT and node.function == function:
                same = parent
            parent = node.parent
        return same


def _parents(log: ThreadLog) -> Integers:
    """Return the index of the call around each call, -1 if there is none in the log."""
    places = np.arange(len(log))
    around = np.searchsorted(log.start, log.around)
    around[around == len(log)] = 0
    is_inside = (log.flags & layout.REPORTED_ROOT) == 0
    is_there = (log.start[around] == log.around) & (around < places)
    return np.asarray(np.where(is_inside & is_there, around, _NONE), np.int64)


def _depths(parents: Integers) -> Integers:
    """Return how many calls are around each call. Each round doubles the distance covered."""
    above = parents.copy()
    depths: Integers = np.asarray(above != _NONE, np.int64)
    while True:
        on = np.flatnonzero(above != _NONE)
        if not len(on):
            return depths
        depths[on] += depths[above[on]]
        above[on] = above[above[on]]


def _without_waits(log: ThreadLog) -> tuple[Integers, Integers]:
    """Return begin and end of the calls by a clock that stands still while the agent works."""
    at, ticks = log.waits
    order = np.argsort(at, kind="stable")
    at = at[order]
    before = np.concatenate([[0], np.cumsum(ticks[order])])
    start, end = log.start, log.start + log.ticks
    return (
        start - before[np.searchsorted(at, start)],
        end - before[np.searchsorted(at, end)],
    )


def _own_ticks(start: Integers, end: Integers, ticks: Integers, seen: Booleans) -> Integers:
    """Return the own ticks of each call: ticks that no call inside it has taken."""
    timed = np.flatnonzero(seen)
    order = timed[np.lexsort((-start[timed], end[timed]))]
    before = np.searchsorted(end[order], start[order], side="right")
    # A call of zero length ends when it begins.
    before = np.minimum(before, np.arange(len(order)))
    done = [0]
    latest = 0
    for took, began in zip(ticks[order].tolist(), before.tolist(), strict=True):
        latest += max(0, took - (latest - done[began]))
        done.append(latest)
    own = np.zeros(len(start), np.int64)
    own[order] = np.diff(np.array(done))
    return own


# The logged calls of a recording, together with the agent's final data.


def add_logged(recording: RecordingFile, reported: list[tuple[int, ReportedCalls]]) -> None:
    """Add the trees of all threads to the final data of each program.

    If a program has none because soscope was killed, the cost of its hooks is not known.
    """
    said = dict(reported)
    for program, threads in _logs(recording, reported).items():
        if program not in said:
            costs = [(0, 0)] * headers.PROF_HOOKS
            calls = ReportedCalls(
                headers.PROF_LOG,
                1,
                costs,
                slots=1,
                foreign=0,
                has_shadow_stack=False,
                is_followed=False,
            )
            said[program] = calls
            reported.append((program, calls))
        said[program].threads += [tree_of(thread) for thread in threads]


def _logs(
    recording: RecordingFile, reported: list[tuple[int, ReportedCalls]]
) -> dict[int, list[ThreadLog]]:
    """Return the logs of each program's threads."""
    still_open: dict[int, OpenCalls] = {}
    for program, calls in reported:
        for thread in calls.threads:
            if thread.open_calls:
                known = still_open.setdefault(program, {})
                known.setdefault((thread.pid, thread.tid), []).extend(thread.open_calls)
    return logs_of(recording, still_open)


def timeline_of(
    thread: int, log: ThreadLog, functions: dict[tuple[int, int], int], times: Times
) -> ThreadTimeline:
    """Return the timeline of a log. `functions` are indices by (reported function, hook).

    Calls of a program that forbids the clock have no time, and are left out.
    """
    hooks = (log.flags & layout.REPORTED_HOOK).astype(np.int64)
    reported, which = np.unique(
        np.stack([log.function, hooks], axis=1), axis=0, return_inverse=True
    )
    places = np.array([functions[function, hook] for function, hook in reported.tolist()])
    timed = log.start > 0
    start, ticks = log.start[timed], log.ticks[timed]
    return ThreadTimeline(
        thread,
        times.ns(start),
        times.ns(start + ticks),
        places[which.reshape(-1)][timed],
        log.flags[timed],
        log.is_open[timed],
    )
