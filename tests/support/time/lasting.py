# SPDX-License-Identifier: Apache-2.0
"""Waits in whose middle somebody comes and goes: they last no longer than without.

A wait that begins again ends too late by all that had passed of it before. So somebody comes when
half of it is over, and it has begun again if it ends by that much too late. A busy machine lets
waits end too late as well, but by a moment that does not grow with the wait: what is late is
tried once more with a wait that is four times as long, and then with one of sixteen times.

Programs say when they began to wait and when they went on, by CLOCK_MONOTONIC: in all processes
this is one clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.support.time.patience import RanOut, until

_SPANS = (1, 4, 16)  # seconds
_NS = 1_000_000_000
_ROUNDED = 5_000_000  # ns: some calls count in milliseconds


class Visited(NamedTuple):
    """When a wait began and ended, and when somebody came before its end and left (ns)."""

    began: int
    came: int
    left: int
    ended: int


def assert_no_longer(visit: Callable[[int], Sequence[Visited]]) -> None:
    """Check the waits of a program; `visit(seconds)` lets it wait so long, comes and leaves."""
    for seconds in _SPANS:
        waits = visit(seconds)
        span = seconds * _NS
        assert waits
        for one in waits:
            assert one.ended - one.began >= span - _ROUNDED, f"too short: {one}"
        was_in_time = all(one.began < one.came and one.left < one.ended for one in waits)
        late = [one for one in waits if one.ended >= one.came + span]
        if was_in_time and not late:
            return
    if not was_in_time:
        raise RanOut("somebody comes and leaves in the middle of a wait", _SPANS[-1])
    raise AssertionError(f"the longer the wait, the later its end: {late}")


def await_half(seconds: int, began: int | None = None) -> int:
    """Wait until half of a wait is over that begins now, or began at `began`; return the time."""
    half = (time.monotonic_ns() if began is None else began) + seconds * _NS // 2
    until(lambda: time.monotonic_ns() >= half, "half of the wait is over")
    return time.monotonic_ns()
