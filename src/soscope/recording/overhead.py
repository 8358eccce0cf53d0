# SPDX-License-Identifier: Apache-2.0
"""The time the agent itself took in one thread, to be taken out of the calls' durations."""

from __future__ import annotations

from bisect import bisect_left, insort


class Overhead:
    """Spans (tsc, ticks) of one thread. `before` is only asked about ever later times."""

    __slots__ = ("_folded", "_spans")

    _MANY = 256

    def __init__(self) -> None:
        self._folded = 0  # ticks of spans that have been forgotten
        self._spans: list[tuple[int, int]] = []

    def add(self, tsc: int, ticks: int) -> None:
        """Take a span of `ticks` that began at `tsc`."""
        if self._spans and (tsc, ticks) < self._spans[-1]:
            insort(self._spans, (tsc, ticks))
        else:
            self._spans.append((tsc, ticks))

    def before(self, tsc: int) -> int:
        """Return the ticks of all spans that began before `tsc`."""
        at = bisect_left(self._spans, (tsc, -1))
        return self._folded + sum([ticks for _, ticks in self._spans[:at]])

    def forget(self, tsc: int) -> None:
        """Fold spans that began before `tsc`; nobody asks about earlier times any more."""
        if len(self._spans) > self._MANY:
            at = bisect_left(self._spans, (tsc, -1))
            self._folded += sum([ticks for _, ticks in self._spans[:at]])
            del self._spans[:at]
