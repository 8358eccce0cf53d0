# SPDX-License-Identifier: Apache-2.0
"""Exits of forked children that belong to calls which their parents made."""

from __future__ import annotations

import numpy as np  # noqa: TID253  only `columns` imports this
import numpy.typing as npt  # noqa: TID253

from soscope.recording.collect import Collected, Integers
from soscope.wire import layout


def without_inherited(found: Collected, orphans: list[int], end: Integers) -> list[int]:
    """Return the exits without entry that are no return from an inherited call.

    `end` is the event at which each call left its stack, -1 = none. The rules are those of
    `pairing.Pairing.fork`: at the time of the fork the call was open in the parent, or was
    one that may return again, or the parent had inherited it itself.
    """
    if not orphans:
        return orphans
    forks: dict[int, list[tuple[int, int]]] = {}  # by child: (tsc, parent)
    for tsc, child, parent in found.forks:
        forks.setdefault(child, []).append((tsc, parent))
    place = found.sp << 28 | found.slot
    wanted = np.isin(place, np.unique(place[orphans])) & (found.kind == layout.UNIT_ENTRY)
    entries: dict[tuple[int, int, int], list[int]] = {}  # by program, pid and place
    for entry in np.flatnonzero(wanted).tolist():
        entries.setdefault(_key(found, entry, place), []).append(entry)

    def is_open(entry: int, tsc: int) -> bool:
        over = int(end[entry])
        return int(found.time[entry]) <= tsc and (over < 0 or int(found.time[over]) > tsc)

    def inherited(event: int, pid: int, until: int) -> bool:
        program, _, where = _key(found, event, place)
        # ids are used again: the last fork before
        tsc, parent = max((one for one in forks.get(pid, []) if one[0] <= until), default=(0, 0))
        return parent != 0 and (
            any(
                is_open(entry, tsc) or (found.time[entry] <= tsc and found.twice[end[entry]])
                for entry in entries.get((program, parent, where), [])
            )
            or inherited(event, parent, tsc - 1)
        )

    def of_nobody(event: int, pid: int) -> bool:
        """Say whether some process has such a call open, where nobody has told of a fork."""
        program, _, where = _key(found, event, place)
        return pid not in forks and any(
            is_open(entry, int(found.time[event]))
            for key, calls in entries.items()
            if key[0] == program and key[1] != pid and key[2] == where
            for entry in calls
        )

    return [
        event
        for event in orphans
        if not inherited(event, pid := _key(found, event, place)[1], int(found.time[event]))
        and not of_nobody(event, pid)
    ]


def _key(found: Collected, event: int, place: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    thread = found.thread[event]
    return int(found.thread_program[thread]), int(found.thread_pid[thread]), int(place[event])
