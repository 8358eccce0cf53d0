# SPDX-License-Identifier: Apache-2.0
"""Points that several want, and frames that return, or never will."""

from __future__ import annotations

from soscope.entry.breakpoint import Frame, OpenFrames, Points


def test_a_point_is_there_as_long_as_somebody_wants_it() -> None:
    log: list[tuple[str, int]] = []
    points = Points(lambda addr: log.append(("+", addr)), lambda addr: log.append(("-", addr)))
    points.want(8)
    points.want(8)
    points.leave(8)
    assert 8 in points
    points.leave(8)
    assert 8 not in points
    points.want(12)
    points.clear()
    assert log == [("+", 8), ("-", 8), ("+", 12), ("-", 12)]
    assert not points


def test_what_comes_back_often_is_left_in_place_for_a_while() -> None:
    log: list[tuple[str, int]] = []
    points = Points(lambda addr: log.append(("+", addr)), lambda addr: log.append(("-", addr)))
    points.is_sparing = True
    for _ in range(20):
        points.want(8)
        points.leave(8)
    assert log == [("+", 8), ("-", 8)] * 8 + [("+", 8)]
    assert 8 in points
    for _ in range(65):
        assert 8 in points
        points.has_stopped()
    assert 8 not in points
    assert log[-1] == ("-", 8)
    points.want(8)
    points.leave(8)
    points.clear()
    assert log[-2:] == [("+", 8), ("-", 8)]


def test_points_are_lifted_for_a_while() -> None:
    log: list[tuple[str, int]] = []
    points = Points(lambda addr: log.append(("+", addr)), lambda addr: log.append(("-", addr)))
    points.want(8)
    points.lift()
    assert 8 in points
    points.put_down()
    points.leave(8)
    assert log == [("+", 8), ("-", 8), ("+", 8), ("-", 8)]


def _names(frames: list[Frame[str]]) -> list[str]:
    return [frame.call for frame in frames]


def test_frames_return_in_order() -> None:
    frames: OpenFrames[str] = OpenFrames()
    for sp, name in ((100, "outer"), (80, "inner"), (80, "tail of inner")):
        assert not frames.enter(1, Frame(7, sp, name))
    assert frames.enter(2, Frame(7, 80, "another thread's")) == []
    assert [_names(some) for some in frames.leave(1, 7, 80)] == [["tail of inner", "inner"], []]
    assert [_names(some) for some in frames.leave(1, 9, 90)] == [[], []]
    assert [_names(some) for some in frames.leave(1, 7, 100)] == [["outer"], []]
    assert len(frames) == 1


def test_what_lies_below_a_return_is_gone() -> None:
    frames: OpenFrames[str] = OpenFrames()
    for sp, name in ((100, "outer"), (80, "left"), (60, "left, too")):
        frames.enter(1, Frame(sp, sp, name))
    returned, gone = frames.leave(1, 100, 100)
    assert (_names(returned), _names(gone)) == (["outer"], ["left, too", "left"])
    frames.enter(1, Frame(5, 50, "jumped out of"))
    assert _names(frames.enter(1, Frame(6, 90, "called from further up"))) == ["jumped out of"]


def test_a_return_may_take_its_address_off_the_stack() -> None:
    frames: OpenFrames[str] = OpenFrames(4, 8)
    frames.enter(1, Frame(5, 100, "hidden pointer"))
    assert [_names(some) for some in frames.leave(1, 5, 108)] == [["hidden pointer"], []]


def test_calls_of_a_thread_that_has_ended_are_forgotten() -> None:
    frames: OpenFrames[str] = OpenFrames()
    for sp, name in ((100, "outer"), (80, "inner")):
        frames.enter(1, Frame(7, sp, name))
    frames.enter(2, Frame(7, 80, "another thread's"))
    assert _names(frames.forget(1)) == ["inner", "outer"]
    assert frames.forget(3) == []
    assert len(frames) == 1
