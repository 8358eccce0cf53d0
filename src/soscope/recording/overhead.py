# SPDX-License-Identifier: Apache-2.0
"""The time that the agent took in one thread, which is subtracted from durations."""

from __future__ import annotations

from bisect import bisect_left


class Overhead:
    """Spans of one thread, with their sum up to a time."""

    __slots__ = ("_folded", "_starts", "_ticks")

    _MANY = 64

    def __init__(self) -> None:
        self._folded = 0  # ticks of spans before all further queries
        self._starts: list[int] = []  # tsc of the other spans, in order
        self._ticks: list[int] = []

    def add(self, tsc: int, ticks: int) -> None:
        """Add a span of `ticks` that began at `tsc`."""
        at = len(self._starts)
        if at and tsc < self._starts[-1]:
            at = bisect_left(self._starts, tsc)
        self._starts.insert(at, tsc)
        self._ticks.insert(at, ticks)

    def before(self, tsc: int) -> int:
        """Return the ticks of all spans that began before `tsc`.

        `tsc` must not be before a time given to `forget`.
        """
        if not self._starts:
            return self._folded
        return self._folded + sum(self._ticks[: bisect_left(self._starts, tsc)])

    def next(self, tsc: int) -> int | None:
        """Return when the first span from `tsc` on began, None if there is none."""
        at = bisect_left(self._starts, tsc)
        return self._starts[at] if at < len(self._starts) else None

    def forget(self, tsc: int) -> None:
        """Forget spans before `tsc`, as all further queries are about later times."""
        if len(self._starts) > self._MANY:
            at = bisect_left(self._starts, tsc)
            self._folded += sum(self._ticks[:at])
            del self._starts[:at], self._ticks[:at]
