# SPDX-License-Identifier: Apache-2.0
"""Times, durations and failures of many calls at once, as `clock` and `is_error` for one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.model import image as rules
from soscope.recording.arrays import Booleans, Integers, Words
from soscope.recording.clock import Clock
from soscope.recording.gather import Run


class Times:
    """Converts the tsc of one recording to nanoseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        pieces = clock.segments()
        self._starts = np.array([piece[0] for piece in pieces], np.int64)
        self._realtime = np.array([piece[1] for piece in pieces], np.int64)
        self._rates = np.array([piece[2] for piece in pieces])
        self._even = np.array([piece[3] for piece in pieces])

    def ns(self, tsc: Integers) -> Integers:
        """Return the CLOCK_REALTIME ns of many times, as `Clock.time_ns` does for one."""
        if not len(self._starts):
            return np.zeros(len(tsc), np.int64)
        at = np.searchsorted(self._starts, tsc, side="right") - 1
        rate = self._rates[np.maximum(at, 0)]
        rate[at < 0] = self._clock.rate
        at = np.maximum(at, 0)
        with np.errstate(invalid="ignore"):  # only invented clocks of a file reach that far
            since = np.floor((tsc - self._starts[at]) * rate).astype(np.int64)
        return np.where(tsc > 0, self._realtime[at] + since, 0)

    def durations(self, run: Run, entries: Integers, exits: Integers) -> Integers:
        """Return the ns between entries and exits, without the agent's time; -1 if not known."""
        tsc = run.events.tsc
        begun, ended = tsc[entries], tsc[exits]
        ticks = ended - begun
        if run.time is tsc:  # the times never go back
            taken = run.thread.spans.before_each(tsc)
            if taken is not None:
                ticks -= taken[exits] - taken[entries]
        else:
            before = run.thread.spans.before
            ticks -= before(ended) - before(begun)
        spent = self._nanoseconds(ticks, run.time[exits])
        if not tsc.all():
            spent[(begun <= 0) | (ended <= 0)] = -1
        return spent

    def _nanoseconds(self, ticks: Integers, until: Integers) -> Integers:
        """Return the ns of durations in ticks that ended at `until`, as `Clock.duration_ns`."""
        ticks = np.maximum(ticks, 0)
        if not len(self._starts) or not len(until):
            return ticks.astype(np.int64)
        ends = np.searchsorted(self._starts, (until.min(), until.max()), side="right") - 1
        low, high = np.maximum(ends, 0).tolist()
        if low == high:
            return np.asarray(ticks * self._even[low], np.int64)
        at = np.searchsorted(self._starts[low : high + 1], until, side="right") - 1
        return np.asarray(ticks * self._even[low : high + 1][np.maximum(at, 0)], np.int64)

    def late(self, run: Run, begun: Integers, exits: Integers, moved: Booleans) -> Integers:
        """Return durations of calls that began at `begun`, in another window or thread."""
        ended = run.events.tsc[exits]
        before = run.thread.spans.before
        ticks = ended - begun - np.where(moved, 0, before(ended) - before(begun))
        spent = self._nanoseconds(ticks, run.time[exits])
        spent[(begun <= 0) | (ended <= 0)] = -1
        return spent


def failed(rule: npt.NDArray[np.uint8], result: Words) -> Booleans:
    """Return for each result whether its function failed, as `is_error` does."""
    fails = np.zeros(len(rule), np.bool_)
    for each in np.flatnonzero(np.bincount(rule)).tolist():
        if each == rules.ERROR_NONE:
            continue
        here = np.flatnonzero(rule == each)
        fails[here] = _fails(each, result[here])
    return fails


def _fails(rule: int, result: Words) -> Booleans:
    low = result.astype(np.uint32)
    if rule == rules.ERROR_INT_NEGATIVE:
        fails = low >= 1 << 31
    elif rule == rules.ERROR_LONG_NEGATIVE:
        fails = result >= 1 << 63
    elif rule == rules.ERROR_NULL:
        fails = result == 0
    elif rule == rules.ERROR_MINUS_ONE:
        fails = ~result == 0
    elif rule == rules.ERROR_INT_NONZERO:
        fails = low > 0
    elif rule == rules.ERROR_INT_ZERO:
        fails = low == 0
    elif rule == rules.ERROR_INT_MINUS_ONE:
        fails = ~low == 0
    else:
        fails = np.zeros(len(result), np.bool_)
    return np.asarray(fails, np.bool_)
