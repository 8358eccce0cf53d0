# SPDX-License-Identifier: Apache-2.0
"""The time that the agent took in one thread, for arrays of times: see `overhead`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.recording.arrays import Integers

_MANY = 1 << 12


class ThreadSpans:
    """Spans of one thread, by the tsc at which they began."""

    __slots__ = ("_begun", "_most", "_ticks", "_upto")

    def __init__(self) -> None:
        self._begun: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._ticks: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._upto: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._most = _MANY

    def add(self, tsc: Integers, ticks: Integers) -> None:
        """Add spans of so many ticks that began at `tsc`."""
        begun = np.concatenate((self._begun, tsc))
        ticks = np.concatenate((self._ticks, ticks))
        order = np.argsort(begun, kind="stable")
        self._set(begun[order], ticks[order])

    def _set(self, begun: npt.NDArray[np.int64], ticks: npt.NDArray[np.int64]) -> None:
        self._begun, self._ticks = begun, ticks
        self._upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(ticks)))

    def before(self, tsc: Integers) -> Integers:
        """Return the ticks of all spans that began before each time."""
        return self._upto[np.searchsorted(self._begun, tsc, side="left")]

    def before_each(self, tsc: Integers) -> Integers | None:
        """Return the same as `before`, for times that never go back.

        Return None if no spans are among the times.
        """
        low, high = np.searchsorted(self._begun, (tsc[0], tsc[-1]), side="left").tolist()
        if low == high:
            return None
        begun, ticks = self._begun[low:high], self._ticks[low:high]
        steps = np.zeros(len(tsc), np.int64)
        np.add.at(steps, np.searchsorted(tsc, begun, side="right"), ticks)
        return np.cumsum(steps)

    @property
    def are_many(self) -> bool:
        """Return whether there are enough spans to `fold` them."""
        return len(self._begun) > self._most

    def fold(self, times: list[int], now: int) -> None:
        """Simplify spans, as all further queries are about `times` or about `now` and later.

        Spans that no query can tell apart are joined.
        """
        old = int(np.searchsorted(self._begun, now))
        which = np.searchsorted(np.array(sorted(times), np.int64), self._begun, side="right")
        first = np.flatnonzero((np.diff(which, prepend=-1) > 0) | (np.arange(len(which)) >= old))
        self._set(self._begun[first], np.add.reduceat(self._ticks, first))
        self._most = max(_MANY, 2 * len(first))
