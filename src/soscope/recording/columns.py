# SPDX-License-Identifier: Apache-2.0
"""All calls of a recording as numpy arrays, one element per call, in order of their times.

The same calls as `stream` finds, by the same rules, at many times its speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from soscope.model.call import (
    ENDED_EXIT,
    ENDED_KILLED,
    ENDED_LOST,
    ENDED_RETURN,
    ENDED_UNWOUND,
)
from soscope.model.slot import is_error
from soscope.recording import pairing
from soscope.recording.clock import Clock
from soscope.recording.collect import Collected, collect
from soscope.recording.inherited import without_inherited
from soscope.recording.matching import index_type, match
from soscope.recording.reader import Recording
from soscope.wire import layout

Integers = npt.NDArray[np.signedinteger[Any]]

# `Columns.ended` holds indices of this; 0: it had not ended, or its exit is not recorded.
ENDED = ("", ENDED_RETURN, ENDED_UNWOUND, ENDED_EXIT, ENDED_KILLED, ENDED_LOST)
_RETURN = ENDED.index(ENDED_RETURN)
_UNWOUND = ENDED.index(ENDED_UNWOUND)
_LOST = ENDED.index(ENDED_LOST)


class Columns:
    """The calls of a recording.

    program, slot   the traced program and the slot's number in it
    pid, tid        of the entry
    time_ns         of the entry, CLOCK_REALTIME
    duration_ns     -1 where it is not known
    result          unsigned 64-bit word; 0 where `ended` is not "return"
    errno           0 where the call did not fail, or it is not known
    return_addr     where it returns to, 0 where that is not known
    arg0            the first integer argument register
    depth           open hooked calls around it, from 0
    ended           index of `ENDED`
    entry_only      no exit was to be seen

    `orphans` is the number of exits whose entry is missing; a forked child's return from a
    call of its parent is none.
    """

    def __init__(self, arrays: dict[str, Any], orphans: int) -> None:
        self.program: npt.NDArray[np.int64] = arrays["program"]
        self.pid: npt.NDArray[np.int64] = arrays["pid"]
        self.tid: npt.NDArray[np.int64] = arrays["tid"]
        self.slot: npt.NDArray[np.int64] = arrays["slot"]
        self.time_ns: npt.NDArray[np.int64] = arrays["time_ns"]
        self.duration_ns: npt.NDArray[np.int64] = arrays["duration_ns"]
        self.result: npt.NDArray[np.uint64] = arrays["result"]
        self.errno: npt.NDArray[np.int64] = arrays["errno"]
        self.return_addr: npt.NDArray[np.uint64] = arrays["return_addr"]
        self.arg0: npt.NDArray[np.uint64] = arrays["arg0"]
        self.depth: npt.NDArray[np.int64] = arrays["depth"]
        self.ended: npt.NDArray[np.uint8] = arrays["ended"]
        self.entry_only: npt.NDArray[np.bool_] = arrays["entry_only"]
        self.orphans = orphans

    def __len__(self) -> int:
        return len(self.slot)


class _Calls:
    """What is being found out; arrays have one element per event, of which entries count."""

    def __init__(self, found: Collected) -> None:
        size = len(found.kind)
        index = index_type(size)
        self.partner: Integers = np.full(size, -1, index)  # entry <-> exit
        self.over: Integers = np.full(size, -1, index)  # the event that ended it otherwise
        self.depth: Integers = np.zeros(size, np.int32)
        self.before: Integers = np.full(size, -1, index)  # the call that tail-called it
        self.moved = np.zeros(size, np.bool_)  # an entry whose exit is another thread's
        self.orphans: list[int] = []


def columns(recording: Recording) -> Columns:
    """Reduce a recording to arrays; a damaged one up to the damage."""
    found = collect(recording)
    calls = _Calls(found)
    odd = _groups(found, found.odd_threads())
    while True:
        odd, again = _match(found, calls, odd)
        if not again:
            break
    for group in sorted(odd):
        _match_one_by_one(found, calls, group)
    calls.orphans = without_inherited(found, calls.orphans, _ends(calls))
    _find_callers(found, calls)
    return _columns(recording.clock, found, calls)


def _groups(found: Collected, threads: list[int]) -> set[int]:
    return {int(found.thread_group[thread]) for thread in threads}


def _match(found: Collected, calls: _Calls, odd: set[int]) -> tuple[set[int], bool]:
    """Match the stacks of all groups (programs and processes) but the `odd` ones.

    Where a call may have moved from one thread to another its group is odd, too; says
    whether that is so.
    """
    group = found.thread_group[found.thread]
    take = np.flatnonzero(~np.isin(group, sorted(odd)))
    stack = found.stack[take]
    order = take[np.argsort(stack, kind="stable")]
    stack = found.stack[order]
    # a mark in front of each stack
    starts = np.flatnonzero(np.diff(stack, prepend=-1))
    marked = np.insert(order, starts, -1)
    real = marked >= 0
    event = np.where(real, marked, 0)
    matching = match(
        np.where(real, found.kind[event], 0),
        np.where(real, found.sp[event], 0),
        np.where(real, found.slot[event], 0),
        found.tail[event] & real,
        found.twice[event] & real,
    )
    again = set(matching.again)
    lone = marked[[one for one in matching.orphans if one not in again]]
    moved = _maybe_moved(found, lone)
    if moved:
        return odd | moved, True
    for name in ("partner", "over"):
        values = getattr(matching, name)[real]
        getattr(calls, name)[marked[real]] = np.where(values >= 0, marked[values], -1)
    calls.depth[marked[real]] = matching.depth[real]
    calls.orphans = lone.tolist()
    return odd, False


def _maybe_moved(found: Collected, orphans: Integers) -> set[int]:
    """Return the groups in which another thread has a call that such an exit could end."""
    if not len(orphans):
        return set()
    group = found.thread_group[found.thread]
    place = found.sp << 28 | found.slot
    entries = np.flatnonzero(
        (found.kind == layout.UNIT_ENTRY) & np.isin(place, np.unique(place[orphans]))
    )
    threads: dict[tuple[int, int], set[int]] = {}
    for entry in entries.tolist():
        key = int(group[entry]), int(place[entry])
        threads.setdefault(key, set()).add(int(found.thread[entry]))
    return {
        int(group[one])
        for one in orphans.tolist()
        if threads.get((int(group[one]), int(place[one])), set()) - {int(found.thread[one])}
    }


def _match_one_by_one(found: Collected, calls: _Calls, group: int) -> None:
    """Find the calls of one group as `stream` does."""
    events = np.flatnonzero(found.thread_group[found.thread] == group)
    events = events[np.lexsort((events, found.time[events]))]
    pairs = pairing.Pairing()
    threads: dict[int, pairing.Thread] = {}
    for event in events.tolist():
        number = int(found.thread[event])
        thread = threads.get(number)
        if thread is None:
            thread = threads[number] = pairs.thread((0, 0, number))
        slot, sp = int(found.slot[event]), int(found.sp[event])
        if found.kind[event] == layout.UNIT_EXIT:
            call, how, over = pairs.leave(thread, slot, sp, twice=bool(found.twice[event]))
            if call is None:
                calls.orphans.append(event)
            elif how != pairing.AGAIN:
                calls.partner[event] = call.payload
                calls.partner[call.payload] = event
                calls.moved[call.payload] = how == pairing.MOVED
        else:
            returns = bool(found.kind[event] == layout.UNIT_ENTRY)
            call, depth, over, _ = pairs.enter(
                thread, slot, sp, 0, tail=bool(found.tail[event]), returns=returns
            )
            call.payload = event
            calls.depth[event] = depth
        for gone in over:
            calls.over[gone.payload] = event


def _find_callers(found: Collected, calls: _Calls) -> None:
    """Set `before` of tail-called entries: the open call at the same address, if any."""
    tails = np.flatnonzero(found.tail & (found.kind != layout.UNIT_EXIT))
    if not len(tails):
        return
    place = found.thread.astype(np.int64) << 32 | found.sp
    events = np.flatnonzero(np.isin(place, np.unique(place[tails])))
    events = events[np.lexsort((events, found.time[events]))]
    chains: dict[int, list[int]] = {}
    end = _ends(calls)
    rank = np.empty(len(found.kind), np.int64)
    rank[np.lexsort((np.arange(len(rank)), found.time))] = np.arange(len(rank))
    for event in events.tolist():
        if found.kind[event] == layout.UNIT_EXIT:
            continue
        chain = chains.setdefault(int(place[event]), [])
        while chain and end[chain[-1]] >= 0 and rank[end[chain[-1]]] <= rank[event]:
            chain.pop()
        if found.tail[event] and chain:
            calls.before[event] = chain[-1]
        if found.kind[event] == layout.UNIT_ENTRY:
            chain.append(event)


def _ends(calls: _Calls) -> Integers:
    """Return the event at which each call left its stack, -1 = none."""
    return np.where(calls.over >= 0, calls.over, calls.partner)


def _columns(clock: Clock, found: Collected, calls: _Calls) -> Columns:
    entries = np.flatnonzero(found.kind != layout.UNIT_EXIT)
    entries = entries[np.lexsort((entries, found.time[entries]))]
    exits = calls.partner[entries]
    returned = exits >= 0
    thread = found.thread[entries]
    entry_only = found.kind[entries] == layout.UNIT_ENTRY_ONLY
    arrays: dict[str, Any] = {
        "program": found.thread_program[thread],
        "pid": found.thread_pid[thread],
        "tid": found.thread_tid[thread],
        "slot": found.slot[entries].astype(np.int64),
        "time_ns": times_ns(clock, found.time[entries]),
        "arg0": found.second[entries],
        "depth": calls.depth[entries].astype(np.int64),
        "entry_only": entry_only,
        "result": np.where(returned, found.first[exits], 0).astype(np.uint64),
        "ended": _how_ended(found, calls, entries),
        "duration_ns": np.full(len(entries), -1, np.int64),
        "errno": np.zeros(len(entries), np.int64),
        "return_addr": _return_addrs(found, calls)[entries],
    }
    timed = np.flatnonzero(returned & (found.tsc[entries] > 0) & (found.tsc[exits] > 0))
    ticks = found.tsc[exits[timed]] - found.tsc[entries[timed]]
    own = ~calls.moved[entries[timed]]
    ticks[own] -= found.overhead_within(
        thread[timed][own], found.tsc[entries[timed][own]], found.tsc[exits[timed][own]]
    )
    ticks = np.maximum(ticks, 0)
    arrays["duration_ns"][timed] = np.floor(ticks * clock.rate).astype(np.int64)
    failed = np.flatnonzero(returned)
    failed = failed[_failed(found, exits[failed])]
    codes = found.second[exits[failed]] & np.uint64(0xFFFF_FFFF)
    arrays["errno"][failed] = codes.astype(np.int64)
    return Columns(arrays, len(calls.orphans))


def _how_ended(found: Collected, calls: _Calls, entries: Integers) -> npt.NDArray[np.uint8]:
    thread = found.thread[entries]
    over = calls.over[entries]
    holes = found.holes[entries]
    returns = found.kind[entries] == layout.UNIT_ENTRY
    ended = np.zeros(len(entries), np.uint8)
    # open at the end of its thread
    fate = found.thread_fate[thread]
    ended = np.where(fate > 0, np.where(found.thread_holes[thread] != holes, _LOST, fate), 0)
    lost = found.holes[over] != holes
    ended = np.where(over >= 0, np.where(lost, _LOST, _UNWOUND), ended)
    ended = np.where(calls.partner[entries] >= 0, _RETURN, ended)
    return np.where(returns, ended, 0).astype(np.uint8)


def _return_addrs(found: Collected, calls: _Calls) -> npt.NDArray[np.uint64]:
    """Return where each entry returns to; through chains of tail calls to their start."""
    addrs = np.where(found.tail, np.uint64(0), found.first)
    for event in np.flatnonzero(calls.before >= 0).tolist():  # a caller stands in front
        addrs[event] = addrs[calls.before[event]]
    return addrs.astype(np.uint64)


def _failed(found: Collected, exits: Integers) -> npt.NDArray[np.bool_]:
    """Say of each exit whether its function failed and errno was readable."""
    failed = np.zeros(len(exits), np.bool_)
    if not len(exits):
        return failed
    program = found.thread_program[found.thread[exits]]
    names = program << 28 | found.slot[exits]
    known, which = np.unique(names, return_inverse=True)
    rules = np.zeros(len(known), np.int64)
    for at, name in enumerate(known.tolist()):
        one = found.programs[name >> 28]
        if one.knows_errno:
            rules[at] = one.slot(name & 0xFFF_FFFF).error_rule
    rule = rules[which.reshape(-1)]
    result = found.first[exits]
    for each in np.unique(rule).tolist():
        here = np.flatnonzero(rule == each)
        values, which = np.unique(result[here], return_inverse=True)
        fails = np.array([is_error(each, value) for value in values.tolist()], np.bool_)
        failed[here] = fails[which.reshape(-1)]
    return failed


def times_ns(clock: Clock, tsc: Integers) -> Integers:
    """Return the CLOCK_REALTIME ns of many times: `Clock.time_ns` for arrays."""
    starts, realtime, rates = clock.segments()
    if not starts:
        return np.zeros(len(tsc), np.int64)
    at = np.searchsorted(np.array(starts, np.int64), tsc, side="right") - 1
    rate = np.array(rates)[np.maximum(at, 0)]
    rate[at < 0] = clock.rate
    at = np.maximum(at, 0)
    since = tsc - np.array(starts, np.int64)[at]
    with np.errstate(invalid="ignore"):  # only clocks that a file made up go that far
        times = np.array(realtime, np.int64)[at] + np.floor(since * rate).astype(np.int64)
    return np.where(tsc > 0, times, 0)
