# SPDX-License-Identifier: Apache-2.0
"""What `trace -c` adds up while a program runs, from the calls of a recording."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.recording.arrays import Booleans, Integers
from soscope.recording.matched import Matched
from soscope.recording.pairing import OpenCall
from soscope.recording.reader import RecordingFile
from soscope.recording.times import Times, failed
from soscope.recording.windows import SIZE, Windows
from soscope.wire import layout

# calls, returns, errors; total, least and most ns of the returns
Stats = tuple[int, int, int, int, int, int]
_NEVER = np.iinfo(np.int64).max


def stats_of(recording: RecordingFile, size: int | None = SIZE) -> dict[int, dict[int, Stats]]:
    """Return the statistics of each slot that was called: by program, then by slot.

    The times include those of nested calls. A return whose time is not known counts as 0 ns.
    Reads windows of `size` units (None: all at once), up to the damage.
    """
    times = Times(recording.clock)
    tables: dict[int, _Sums] = {}
    for window in Windows(recording, size, deep=False):
        for matched in window:
            program = matched.run.thread.key[0]
            if program not in tables:
                tables[program] = _Sums()
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

    entries, exits = matching.pairs()
    if len(exits):
        of = slot[exits]
        table.add(of, times.durations(run, entries, exits), fails(exits, of))
    again = [(call, event) for event, call in matching.again if not isinstance(call, OpenCall)]
    if again:
        entries, exits = (np.array(some, np.int64) for some in zip(*again, strict=True))
        of = slot[exits]
        table.add(of, times.durations(run, entries, exits), fails(exits, of))
    late = [(event, call.tsc, False) for event, call in matching.late]
    late += [
        (event, call.tsc, False) for event, call in matching.again if isinstance(call, OpenCall)
    ]
    late += [(event, call.tsc, True) for event, call in matched.moved]
    if late:
        exits, begun, moved = (np.array(some) for some in zip(*late, strict=True))
        of = slot[exits]
        table.add(of, times.late(run, begun, exits, moved), fails(exits, of))


class _Sums:
    """The sums of one program, by slot."""

    def __init__(self) -> None:
        self._arrays = _rows(0)
        self._beyond: dict[int, int] = {}  # places of slots that no table holds: damage

    def _places(self, slot: Integers) -> Integers:
        """Return where the sums of slots stand, and see to it that there is room."""
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
        """Add calls of some slots."""
        if len(slot):
            counts = np.bincount(self._places(slot))
            self._arrays[0, : len(counts)] += counts

    def add(self, slot: Integers, spent: Integers, fails: Booleans | None) -> None:
        """Add returns that took so long."""
        slot = self._places(slot)
        spent = np.maximum(spent, 0)
        _, returns, errors, total, least, most = self._arrays
        counts = np.bincount(slot)
        returns[: len(counts)] += counts
        if fails is not None:
            counts = np.bincount(slot[fails])
            errors[: len(counts)] += counts
        np.add.at(total, slot, spent)
        np.minimum.at(least, slot, spent)
        np.maximum.at(most, slot, spent)

    def rows(self) -> dict[int, Stats]:
        """Return the sums of the slots that have any."""
        self._arrays[4][self._arrays[1] == 0] = 0
        slots = {place: slot for slot, place in self._beyond.items()}
        used = np.flatnonzero((self._arrays[0] > 0) | (self._arrays[1] > 0))
        columns = self._arrays[:, used].tolist()
        return {
            slots.get(place, place): row
            for place, row in zip(used.tolist(), zip(*columns, strict=True), strict=True)
        }


def _rows(size: int) -> npt.NDArray[np.int64]:
    rows = np.zeros((6, size), np.int64)
    rows[4] = _NEVER
    return rows
