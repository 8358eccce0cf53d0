# SPDX-License-Identifier: Apache-2.0
"""The time in which a tracer has looked at its tracee.

A tracer that gets no processor, or whose machine pauses, has not really waited in that time.
"""

from __future__ import annotations

import time

_LONGEST = 0.05  # seconds between two looks that count at most


class LookingTime:
    """A clock that advances by at most 50 ms from one look to the next.

    >>> from soscope.entry.stop.patience import LookingTime
    >>> clock = LookingTime()
    >>> clock.now()
    0.0
    """

    __slots__ = ("_last", "_sum")

    def __init__(self) -> None:
        self._last: float | None = None
        self._sum = 0.0

    def now(self) -> float:
        """Return the seconds since the first look, without pauses between looks."""
        now = time.monotonic()
        if self._last is not None:
            self._sum += min(now - self._last, _LONGEST)
        self._last = now
        return self._sum
