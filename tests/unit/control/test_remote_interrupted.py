# SPDX-License-Identifier: Apache-2.0
"""Points that a thread comes to again, as a signal was first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from soscope.control.breakpoints.calls import Calls, InterruptedPoints
from soscope.entry.remote.conventions import x86_64


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


def test_a_child_of_a_handler_comes_to_a_point_again() -> None:
    """It returns from the handler that has made it, as its parent does, in a memory of its own."""
    run: Any = SimpleNamespace(
        traced=SimpleNamespace(convention=x86_64("st0")),
        selection=SimpleNamespace(kind=0),
        recorder=None,
        string_limit=0,
    )
    nothing: Any = None
    parent, child = Calls(nothing, nothing, run), Calls(nothing, nothing, run)
    parent.interrupted.leave(1, 0x10, 800)
    child.inherit(parent, 1, 2)
    assert child.interrupted.comes_back(2, 0x10, 800)
    assert parent.interrupted.comes_back(1, 0x10, 800)
    child.interrupted.leave(2, 0x10, 800)
    child.forget(2)
    assert not child.interrupted.comes_back(2, 0x10, 800)
