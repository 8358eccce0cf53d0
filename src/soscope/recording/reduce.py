# SPDX-License-Identifier: Apache-2.0
"""Computes the sums of `trace -c` from the calls of a recording."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.model.call import Stats
from soscope.recording.arrays import Booleans, Integers
from soscope.recording.durations import Durations
from soscope.recording.matched import Matched
from soscope.recording.pairing import OpenCall
from soscope.recording.reader import RecordingFile
from soscope.recording.selftimes import self_times
from soscope.recording.times import Times, failed
from soscope.recording.windows import SIZE, Windows
from soscope.wire import layout

_NEVER = np.iinfo(np.int64).max


def stats_of(
    recording: RecordingFile,
    size: int | None = SIZE,
    durations: dict[int, Durations] | None = None,
) -> dict[int, Stats]:
    """Return the statistics of each slot that was called: by program, then by slot.

    Times are ns. A return whose time is not known counts as 0 ns. There is no own time for a
    coroutine's return in another thread, and for all but the first return of a call that returns
    several times. If `durations` is given, each duration is added to those of its program.
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
