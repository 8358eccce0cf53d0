# SPDX-License-Identifier: Apache-2.0
"""Reduce the calls of a recording to sums: counts, classes of durations, self times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.model.call import Stats
from soscope.recording.arrays import Booleans, Integers
from soscope.recording.columns import Times, failed
from soscope.recording.match_arrays import Matched
from soscope.recording.pairing import OpenCall
from soscope.recording.reader import RecordingFile
from soscope.recording.windows import SIZE, Windows
from soscope.wire import layout

# The distribution of durations, in classes whose width is a sixteenth of their size.

_BITS = 4  # bits behind the highest bit of a duration that are part of its class
_FINE = 1 << _BITS
CLASSES = (64 - _BITS) * _FINE


def classes_of(ns: Integers) -> npt.NDArray[np.int64]:
    """Return the class of each duration, none of which is negative."""
    high = np.frexp(ns.astype(np.float64))[1].astype(np.int64) - 1  # the highest bit
    shift = np.maximum(high - _BITS, 0)
    return np.asarray((shift << _BITS) + (ns >> shift), np.int64)


def class_of(ns: int) -> int:
    """Return the class of a duration, which is not negative."""
    shift = max(ns.bit_length() - 1 - _BITS, 0)
    return (shift << _BITS) + (ns >> shift)


def bounds_of(index: int) -> tuple[int, int]:
    """Return the shortest duration of a class, and the shortest of the next, in ns."""
    shift = max((index >> _BITS) - 1, 0)
    first = index - (shift << _BITS)
    return first << shift, (first + 1) << shift


class Durations:
    """The durations of the calls of one program, by slot."""

    def __init__(self) -> None:
        self._rows: dict[int, npt.NDArray[np.int64]] = {}

    def add(self, slots: Integers, ns: Integers) -> None:
        """Add calls with these durations. Negative durations count as 0."""
        keys, counts = np.unique(
            slots * CLASSES + classes_of(np.maximum(ns, 0)), return_counts=True
        )
        for slot in np.unique(keys // CLASSES).tolist():
            first, last = np.searchsorted(keys, (slot * CLASSES, (slot + 1) * CLASSES))
            row = self._rows.get(slot)
            if row is None:
                row = self._rows[slot] = np.zeros(CLASSES, np.int64)
            row[keys[first:last] - slot * CLASSES] += counts[first:last]

    def rows(self) -> dict[int, dict[int, int]]:
        """Return the number of calls in each class, by slot. Empty classes are left out."""
        return {
            slot: {at: int(row[at]) for at in np.flatnonzero(row).tolist()}
            for slot, row in self._rows.items()
        }


# Own times of calls, without the calls inside of them in the same thread.
#
# The rule is the same as in the agent. A thread has a sum of the time of all calls, in which each
# nanosecond counts once. The growth of the sum during a call belongs to other calls. The rest is
# the call's own time, and is added to the sum. So no call has a negative time, and no thread more
# than has passed, even if calls are not nested, as in coroutines.


def self_times(
    matched: Matched, spent: Integers, late_spent: Integers
) -> tuple[Integers, Integers]:
    """Return the own ns of the pairs of a window, and of the late calls.

    `spent` and `late_spent` are their total ns, none of which is negative. Call this once for
    each window of a thread, in their order.
    """
    thread, late = matched.run.thread, matched.matching.late
    before = thread.done
    entries, exits = matched.matching.pairs()
    late_exits = np.array([event for event, _ in late], np.int64)
    own = _without_nested(entries, exits, spent, late_exits)
    if own is None:
        own, late_own = _in_turn(entries, exits, spent, late, late_spent, before)
    else:
        late_own = _late(_ThreadSum(before, exits, own), late, late_spent)
    ends, owns = np.concatenate((exits, late_exits)), np.concatenate((own, late_own))
    thread.done += int(owns.sum())
    _begin(matched, before, ends, owns)
    return own, late_own


class _ThreadSum:
    """The sum of a thread in one window, which grows by `owns` at each of `exits`."""

    def __init__(self, before: int, exits: Integers, owns: Integers) -> None:
        order = np.argsort(exits, kind="stable")
        self._exits = exits[order]
        self._sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(owns[order])))
        self._before = before

    def at(self, event: int) -> int:
        """Return the thread's sum before an event."""
        return self._before + int(self._sums[np.searchsorted(self._exits, event)])


def _own(spent: int, grown: int) -> int:
    """Return a call's own time, if the sum has grown by `grown` during the call."""
    return min(max(spent - grown, 0), spent)


def _without_nested(
    entries: Integers, exits: Integers, spent: Integers, others: Integers
) -> Integers | None:
    """Return the own times of pairs, which no pair inside of them has taken.

    Return None if that does not suffice, because pairs, and exits of `others`, are not nested.
    """
    if not len(entries):
        return spent
    size = int(exits.max()) + 1
    steps = np.zeros(size + 1, np.int32)
    steps[entries] = 1
    steps[exits] = -1
    depth = np.cumsum(steps)
    if depth[np.minimum(others, size)].any():
        return None
    if int(depth.max()) == 1:
        return spent
    level = depth[entries]
    if (depth[exits] + 1 != level).any():
        return None
    order = np.lexsort((exits, level))
    begun, ended, level_of = entries[order], exits[order], level[order]
    if ((begun[1:] < ended[:-1]) & (level_of[1:] == level_of[:-1])).any():
        return None
    # The pairs one level deeper that end inside of a pair are consecutive.
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(spent[order])))
    places = level_of * size + ended
    outer = np.flatnonzero(exits - entries > 1)
    deeper = (level[outer] + 1) * size
    first = np.searchsorted(places, deeper + entries[outer])
    last = np.searchsorted(places, deeper + exits[outer])
    own = spent.copy()
    own[outer] -= sums[last] - sums[first]
    return own if own.min() >= 0 else None


def _late(total: _ThreadSum, late: list[tuple[int, OpenCall]], spent: Integers) -> Integers:
    """Return the own time of calls of earlier windows, which end outside of all pairs."""
    own = np.zeros(len(late), np.int64)
    added = 0
    for at in sorted(range(len(late)), key=lambda at: late[at][0]):
        event, call = late[at]
        now = total.at(event) + added
        own[at] = _own(int(spent[at]), now - (now if call.done is None else call.done))
        added += int(own[at])
    return own


def _in_turn(
    entries: Integers,
    exits: Integers,
    spent: Integers,
    late: list[tuple[int, OpenCall]],
    late_spent: Integers,
    done: int,
) -> tuple[Integers, Integers]:
    """Compute own times by applying the rule to one event after the other."""
    own, late_own = np.zeros(len(entries), np.int64), np.zeros(len(late), np.int64)
    pairs = range(len(entries))
    turns = [(event, pair, False) for event, pair in zip(entries.tolist(), pairs, strict=True)]
    turns += [(event, pair, True) for event, pair in zip(exits.tolist(), pairs, strict=True)]
    turns += [(event, -1 - at, True) for at, (event, _) in enumerate(late)]
    begun = [0] * len(entries)
    times, late_times = spent.tolist(), late_spent.tolist()
    for _, which, is_exit in sorted(turns):
        if not is_exit:
            begun[which] = done
        elif which >= 0:
            own[which] = mine = _own(times[which], done - begun[which])
            done += mine
        else:
            start = late[-1 - which][1].done
            grown = done - (done if start is None else start)
            late_own[-1 - which] = mine = _own(late_times[-1 - which], grown)
            done += mine
    return own, late_own


def _begin(matched: Matched, before: int, exits: Integers, owns: Integers) -> None:
    """Keep the sum at the entry of each call that may return in a later window."""
    state = matched.run.thread.state
    calls = [*state.open(), *state.again.values()]
    for some in state.unwound.values():
        calls += some
    calls = [call for call in calls if call.done is None]
    if calls:
        total = _ThreadSum(before, exits, owns)
        numbers = matched.run.numbers(slice(None))
        for call in calls:
            call.done = total.at(int(np.searchsorted(numbers, call.payload[0])))


# Computes the sums of `trace -c` from the calls of a recording.

_NEVER = np.iinfo(np.int64).max


def stats_of(
    recording: RecordingFile,
    size: int | None = SIZE,
    durations: dict[int, Durations] | None = None,
) -> dict[int, Stats]:
    """Return the statistics of each slot that was called: by program, then by slot.

    Times are ns. A return whose time is not known counts as 0 ns. There is no own time for a
    coroutine's return in another thread, and for all but the first return of a call that returns
    several times. If `durations` is given, each duration is added to the durations of its program.
    Windows of `size` units are read (all at once if it is None), up to the damage.
    """
    times = Times(recording.clock)
    tables: dict[int, _Sums] = {}
    for window in Windows(recording, size, deep=False):
        for matched in window:
            program = matched.run.thread.key[0]
            if program not in tables:
                tables[program] = _Sums()
                if durations is not None:
                    tables[program].durations = durations[program] = Durations()
            _add(tables[program], matched, times)
    return {program: rows for program, table in tables.items() if (rows := table.rows())}


def _add(table: _Sums, matched: Matched, times: Times) -> None:
    """Add the calls of one thread in one window."""
    run, slots, matching = matched.run, matched.slots, matched.matching
    events = run.events
    slot = events.slot()
    table.count_calls(slot[events.kind() != layout.UNIT_EXIT])

    def fails(exits: Integers, of: Integers) -> Booleans | None:
        rule = slots.error_rule(of) if slots.has_rules else None
        return failed(rule, events.first(exits)) if rule is not None and rule.any() else None

    def later(calls: list[tuple[int, OpenCall]], *, moved: bool) -> tuple[Integers, Integers]:
        """Return exits of calls that began in another window or thread, and their durations."""
        exits = np.array([event for event, _ in calls], np.int64)
        begun = np.array([call.tsc for _, call in calls], np.int64)
        elsewhere = np.full(len(calls), moved)
        return exits, np.maximum(times.late(run, begun, exits, elsewhere), 0)

    entries, exits = matching.pairs()
    spent = np.zeros(0, np.int64)
    if len(exits):
        spent = np.maximum(times.durations(run, entries, exits), 0)
    ends, late_spent = later(matching.late, moved=False)
    own, late_own = self_times(matched, spent, late_spent)
    if len(exits):
        of = slot[exits]
        table.add(of, spent, own, fails(exits, of))
    if len(ends):
        of = slot[ends]
        table.add(of, late_spent, late_own, fails(ends, of))
    again = [(call, event) for event, call in matching.again if not isinstance(call, OpenCall)]
    if again:
        entries, exits = (np.array(some, np.int64) for some in zip(*again, strict=True))
        of = slot[exits]
        spent = np.maximum(times.durations(run, entries, exits), 0)
        table.add(of, spent, np.zeros_like(spent), fails(exits, of))
    before = [(event, call) for event, call in matching.again if isinstance(call, OpenCall)]
    for calls, moved in ((before, False), (matched.moved, True)):
        if calls:
            exits, spent = later(calls, moved=moved)
            of = slot[exits]
            table.add(of, spent, np.zeros_like(spent), fails(exits, of))


class _Sums:
    """The sums of one program, by slot."""

    def __init__(self) -> None:
        self._arrays = _rows(0)
        self.durations: Durations | None = None
        self._beyond: dict[int, int] = {}  # places of slots beyond all tables, from damaged data

    def _places(self, slot: Integers) -> Integers:
        """Return the places of the sums of slots. Enlarge the arrays if needed."""
        last = int(slot.max())
        if last >= layout.MAX_SLOTS:
            far = np.flatnonzero(slot >= layout.MAX_SLOTS)
            places = [
                self._beyond.setdefault(index, layout.MAX_SLOTS + len(self._beyond))
                for index in slot[far].tolist()
            ]
            slot = slot.copy()
            slot[far] = places
            last = int(slot.max())
        have = self._arrays.shape[1]
        if last >= have:
            self._arrays = np.concatenate((self._arrays, _rows(last + 1 - have)), axis=1)
        return slot

    def count_calls(self, slot: Integers) -> None:
        """Add calls of slots."""
        if len(slot):
            counts = np.bincount(self._places(slot))
            self._arrays[0, : len(counts)] += counts

    def add(self, slot: Integers, spent: Integers, own: Integers, fails: Booleans | None) -> None:
        """Add returns with their durations, and their own times."""
        if self.durations is not None:
            self.durations.add(slot, spent)
        slot = self._places(slot)
        _, returns, errors, total, least, most, selves = self._arrays
        counts = np.bincount(slot)
        returns[: len(counts)] += counts
        if fails is not None:
            counts = np.bincount(slot[fails])
            errors[: len(counts)] += counts
        np.add.at(total, slot, spent)
        np.add.at(selves, slot, own)
        np.minimum.at(least, slot, spent)
        np.maximum.at(most, slot, spent)

    def rows(self) -> Stats:
        """Return the sums of all slots with calls or returns."""
        self._arrays[4][self._arrays[1] == 0] = 0
        slots = {place: slot for slot, place in self._beyond.items()}
        used = np.flatnonzero((self._arrays[0] > 0) | (self._arrays[1] > 0))
        columns = self._arrays[:, used].tolist()
        return {
            slots.get(place, place): row
            for place, row in zip(used.tolist(), zip(*columns, strict=True), strict=True)
        }


def _rows(size: int) -> npt.NDArray[np.int64]:
    rows = np.zeros((7, size), np.int64)
    rows[4] = _NEVER
    return rows
