# SPDX-License-Identifier: Apache-2.0
"""What hooks cost is taken off where it was: inside a call, or in the one around it."""

from __future__ import annotations

from soscope.instruments.prof.instrumented import (
    ROOT,
    CallNode,
    NodeTimes,
    ReportedCalls,
    ThreadCalls,
    means_of,
    node_times,
)
from soscope.wire import headers

INNER, OUTER = 30, 70


def reported(*nodes: CallNode, period: int = 1) -> tuple[ReportedCalls, ThreadCalls]:
    costs = [(INNER, OUTER)] * headers.PROF_HOOKS
    mode = headers.PROF_TIME if period == 1 else headers.PROF_SAMPLE
    calls = ReportedCalls(
        mode, period, costs, slots=1, foreign=0, has_shadow_stack=False, is_followed=False
    )
    thread = ThreadCalls(1, 1, 1)
    thread.nodes.extend(nodes)
    calls.threads.append(thread)
    return calls, thread


def node(parent: int, calls: int, timed: int, total: int, self_: int) -> CallNode:
    return CallNode(
        parent,
        1,
        2,
        3,
        headers.PROF_CYG,
        calls=calls,
        timed=timed,
        total_ticks=total,
        self_ticks=self_,
    )


def times_of(*nodes: CallNode, period: int = 1) -> list[NodeTimes]:
    calls, thread = reported(*nodes, period=period)
    return node_times(calls, thread, means_of(calls))


def test_a_call_is_without_its_own_hooks_and_those_inside_it() -> None:
    # of its own, the outer one takes 1000 ticks, each of the ten inner ones 5
    inner_total = 10 * (5 + INNER)
    outer_self = 1000 + INNER + 10 * (OUTER - INNER)
    outer = node(ROOT, 1, 1, outer_self + inner_total, outer_self)
    inner = node(0, 10, 10, inner_total, inner_total)
    outside, inside = times_of(outer, inner)
    taken_off = INNER + 10 * (OUTER - INNER)
    assert inside.values() == (50, 50, 10 * INNER, 10 * OUTER, 10 * OUTER)
    assert outside.values() == (1050, 1000, taken_off, taken_off + OUTER - INNER, 11 * OUTER)


def test_time_is_never_below_zero() -> None:
    (times,) = times_of(node(ROOT, 10, 10, 100, 100))
    assert (times.total, times.self_, times.overhead) == (0, 0, 100)


def test_a_call_took_no_less_than_those_inside_it() -> None:
    # the quick ones took less than hooks cost, and one in the middle has that to pay
    outer = node(ROOT, 1, 1, 420, 0)
    middle = node(0, 1, 1, 420, 0)
    slow = node(1, 1, 1, 400, 400)
    quick = node(1, 10, 10, 20, 20)
    times = times_of(outer, middle, slow, quick)
    assert [each.self_ for each in times] == [0, 0, 400 - INNER, 0]
    assert [each.total for each in times] == [400 - INNER] * 3 + [0]


def test_a_coroutine_that_goes_on_is_not_time_of_the_call_that_made_it() -> None:
    outer = node(ROOT, 1, 1, 1000, 500)
    coroutine = node(0, 1, 1, 5000, 5000)
    outside, inside = times_of(outer, coroutine)
    assert inside.total == 5000 - INNER
    assert outside.total == 1000 - INNER - INNER - (OUTER - INNER)


def test_calls_that_were_only_counted_have_no_time() -> None:
    (times,) = times_of(node(ROOT, 10, 0, 0, 0))
    assert times.values() == (None,) * 5


def test_some_calls_stand_for_all() -> None:
    # 64 calls of 1000 ticks, and 640 of 5 inside them; one in 64, and ten, were timed
    outer = node(ROOT, 64, 1, 1000 + 10 * 5 + INNER + 10 * OUTER, 0)
    inner = node(0, 640, 10, 10 * (5 + INNER), 0)
    outside, inside = times_of(outer, inner, period=64)
    assert (inside.total, inside.self_) == (640 * 5, 640 * 5)
    assert (outside.total, outside.self_) == (64 * 1050, 64 * 1000)
    assert outside.overhead == 64 * INNER + 640 * (OUTER - INNER)


def test_few_timed_calls_do_not_tell_the_time_of_all() -> None:
    few = node(ROOT, 6400, 29, 29 * (1000 + INNER), 0)
    many = node(ROOT, 6400, 100, 100 * (1000 + INNER), 0)
    all_ = node(ROOT, 29, 29, 29 * (1000 + INNER), 0)
    for each, doubt in ((few, 6_400_000), (many, 1_280_000), (all_, 0)):
        (times,) = times_of(each, period=64)
        assert (times.self_, times.doubt) == (each.calls * 1000, doubt + each.calls * OUTER)


def test_a_difference_has_the_doubt_of_all_that_is_subtracted() -> None:
    # of 100 ticks each the outer ones have 5 of their own
    outer = node(ROOT, 6400, 100, 100 * (100 + INNER + OUTER), 0)
    inner = node(0, 6400, 100, 100 * (95 + INNER), 0)
    outside, _ = times_of(outer, inner, period=64)
    assert (outside.self_, outside.overhead) == (6400 * 5, 6400 * OUTER)
    assert outside.doubt == 6400 * (OUTER + OUTER - INNER) + 6400 * (100 + 95) // 5


def test_a_node_whose_calls_were_all_counted_alone_takes_what_others_took() -> None:
    seen = node(ROOT, 64, 1, 1000 + INNER, 0)
    unseen = node(ROOT, 2, 0, 0, 0)
    assert [times.total for times in times_of(seen, unseen, period=64)] == [64_000, 2000]


def test_what_few_calls_say_of_all_is_no_less_than_what_is_said_of_those_inside() -> None:
    # the only call inside that was timed was a slow one; none of the outer ones was
    outer = node(ROOT, 64, 0, 0, 0)
    slow = node(0, 64, 1, 1000 + INNER, 0)
    outside, inside = times_of(outer, slow, period=64)
    assert inside.total == inside.self_ == 64 * 1000
    assert outside.total is not None
    assert outside.total >= inside.total
    assert outside.total == inside.total + (outside.self_ or 0)
