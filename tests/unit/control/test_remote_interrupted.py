# SPDX-License-Identifier: Apache-2.0
"""Points that a thread comes to again, as a signal was first."""

from __future__ import annotations

from soscope.control.breakpoints.images import InterruptedPoints


def test_a_point_is_dealt_with_once() -> None:
    points = InterruptedPoints()
    assert not points.comes_back(1, 0x10, 800)
    points.leave(1, 0x10, 800)
    assert not points.comes_back(2, 0x10, 800)  # another thread
    assert not points.comes_back(1, 0x10, 500)  # the handler's own call
    points.leave(1, 0x10, 500)  # … is interrupted, too
    assert points.comes_back(1, 0x10, 500)
    assert points.comes_back(1, 0x10, 800)
    assert not points.comes_back(1, 0x10, 800)  # the next call from there


def test_a_handler_that_jumps_away_leaves_nothing() -> None:
    points = InterruptedPoints()
    points.leave(1, 0x10, 800)
    assert not points.comes_back(1, 0x20, 800)
    assert not points.comes_back(1, 0x10, 800)
