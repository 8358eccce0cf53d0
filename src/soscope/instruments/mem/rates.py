# SPDX-License-Identifier: Apache-2.0
"""Rates: blocks and bytes that are made and freed in each of a number of equal intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from soscope.recording.clock import Clock

_MOST = 240  # intervals
_FIRST = 1 << 26  # ticks of the first interval: some hundredths of a second

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


class Rates:
    """Sums by time. Whenever there are too many intervals, their length doubles.

    >>> import numpy as np
    >>> from soscope.instruments.mem.rates import Rates
    >>> rates = Rates()
    >>> rates.made(np.array([1 << 40, (1 << 40) + (1 << 33)]), np.ones(2), np.array([8.0, 4.0]))
    >>> float(rates.sums[:, 1].sum())
    12.0
    """

    __slots__ = ("_first", "_width", "sums")

    def __init__(self) -> None:
        self._first = 0  # tsc where the first interval begins, 0 if there is none yet
        self._width = _FIRST
        # Blocks made, their bytes, blocks freed, their bytes.
        self.sums: Numbers = np.zeros((0, 4))

    def made(self, tsc: Integers, count: Numbers, size: Numbers) -> None:
        """Add blocks that were made."""
        self._add(0, tsc, count, size)

    def freed(self, tsc: Integers, count: Numbers, size: Numbers) -> None:
        """Add blocks that were freed."""
        self._add(2, tsc, count, size)

    def _add(self, column: int, tsc: Integers, count: Numbers, size: Numbers) -> None:
        if not len(tsc):
            return
        first, last = int(tsc.min()), int(tsc.max())
        if not self._first:
            self._first = first
        end = max(last, self._first + len(self.sums) * self._width)
        while (end - min(first, self._first)) // self._width >= _MOST - 1:
            self._halve()
        if first < self._first:  # a record has come late
            more = -(-(self._first - first) // self._width)
            self._first -= more * self._width
            self.sums = np.concatenate((np.zeros((more, 4)), self.sums))
        at = (tsc - self._first) // self._width
        most = max(len(self.sums), int(at.max()) + 1)
        self.sums = np.concatenate((self.sums, np.zeros((most - len(self.sums), 4))))
        self.sums[:, column] += np.bincount(at, count, most)
        self.sums[:, column + 1] += np.bincount(at, size, most)

    def _halve(self) -> None:
        """Join neighbouring intervals in pairs."""
        self._width *= 2
        odd = np.zeros((len(self.sums) % 2, 4))
        self.sums = np.concatenate((self.sums, odd)).reshape(-1, 2, 4).sum(1)

    def said(self, clock: Clock) -> list[list[int]]:
        """Return [begin, end (CLOCK_REALTIME ns), made, bytes, freed, bytes] of each interval."""
        rows = []
        for number, sums in enumerate(self.sums.tolist()):
            begin = self._first + number * self._width
            times = clock.time_ns(begin), clock.time_ns(begin + self._width)
            rows.append([*times, *map(round, sums)])
        return rows
