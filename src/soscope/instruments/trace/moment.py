# SPDX-License-Identifier: Apache-2.0
"""A moment of a trace as users write it: a time after its beginning, or by the clock."""

from __future__ import annotations

from time import localtime, mktime

_HALF_DAY = 43_200
_SECOND = 1_000_000_000

AFTER = "after"  # ns after the beginning of the trace
EPOCH = "epoch"  # ns since 1970
CLOCK = "clock"  # ns since midnight, local time


class Moment:
    """A moment: `ns` nanoseconds after the origin that `kind`, one of the constants, denotes."""

    __slots__ = ("kind", "ns")

    def __init__(self, kind: str, ns: int) -> None:
        self.kind = kind
        self.ns = ns

    def time_ns(self, start_ns: int) -> int:
        """Return CLOCK_REALTIME ns of the moment, in a trace that began at `start_ns`.

        A time of day belongs to the day on which the trace began, or to the next day if it would
        lie more than half a day before the beginning.
        """
        if self.kind == EPOCH:
            return self.ns
        if self.kind == AFTER:
            return start_ns + self.ns
        start = start_ns // _SECOND
        day = localtime(start)
        seconds, rest = divmod(self.ns, _SECOND)
        for later in (0, 1):
            minutes, second = divmod(seconds, 60)
            clock = minutes // 60, minutes % 60, second
            time = mktime((day.tm_year, day.tm_mon, day.tm_mday + later, *clock, 0, 0, -1))
            if time + _HALF_DAY >= start:
                break
        return int(time) * _SECOND + rest
