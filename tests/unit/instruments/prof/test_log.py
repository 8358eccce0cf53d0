# SPDX-License-Identifier: Apache-2.0
"""Single calls add up to what they were made of, and nest as they did."""

from __future__ import annotations

from typing import Any

import numpy as np

from soscope.instruments.prof.instrumented import ROOT, ThreadCalls
from soscope.instruments.prof.log import _UNIT, ThreadLog, timeline_of, tree_of
from soscope.instruments.prof.timeline import BEGIN, END, INSTANT, notes_of
from soscope.recording.clock import Clock
from soscope.recording.columns import Times
from soscope.wire import headers, layout

ROOTED, LEFT, UNSEEN = layout.REPORTED_ROOT, layout.REPORTED_LEFT, layout.REPORTED_UNSEEN
# start, ticks, function, around, flags
Call = tuple[int, int, int, int, int]


def log(calls: list[Call], waits: tuple[tuple[int, int], ...] = (), opened: int = 0) -> ThreadLog:
    """Return the log of a thread, the last calls of which had not returned."""
    kind = layout.UNIT_REPORTED << 28 | headers.PROF_CYG
    rows = [
        (
            kind | flags | ticks >> 32 << layout.REPORTED_TICKS,
            ticks & 0xFFFF_FFFF,
            start,
            function,
            around,
        )
        for start, ticks, function, around, flags in calls
    ]
    agent = [(layout.UNIT_OVERHEAD << 28, 0, at, ticks, 0) for at, ticks in waits]
    is_open = np.arange(len(calls)) >= len(calls) - opened
    return ThreadLog(7, 8, np.array(rows, _UNIT), np.array(agent, _UNIT), is_open)


def rows(thread: ThreadCalls) -> list[dict[str, Any]]:
    names = ("parent", "function", "caller", "calls", "timed", "total_ticks", "self_ticks")
    return [{name: getattr(node, name) for name in names} for node in thread.nodes]


def sums(thread: ThreadCalls) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """Return calls, total and self time by the way to each node."""
    ways: list[tuple[int, ...]] = []
    for node in thread.nodes:
        above = () if node.parent == ROOT else ways[node.parent]
        ways.append((*above, node.function))
    return {
        way: (node.calls, node.total_ticks, node.self_ticks)
        for way, node in zip(ways, thread.nodes, strict=True)
    }


def test_calls_are_added_up_by_their_ways() -> None:
    calls = [
        (20, 10, 2, 10, 0),
        (40, 20, 2, 10, 0),
        (45, 5, 3, 40, 0),
        (10, 100, 1, 0x500, ROOTED),
        (200, 7, 2, 0x600, ROOTED),
        (300, 7, 2, 0x600, ROOTED),
    ]
    thread = tree_of(log(calls))
    assert sums(thread) == {
        (1,): (1, 100, 70),
        (1, 2): (2, 30, 25),
        (1, 2, 3): (1, 5, 5),
        (2,): (2, 14, 14),
    }
    assert [node.caller for node in thread.nodes] == [0x500, 0x600, 0, 0]
    assert (thread.pid, thread.tid) == (7, 8)


def test_calls_that_a_forked_child_wrote_over_are_counted() -> None:
    calls = [
        (10, 100, 1, 0x500, ROOTED),
        (20, 10, 2, 10, 0),
        (40, 7, 2, 10, 0),
        (10, 5, 1, 0x500, ROOTED),  # another one's ticks stand there
        (40, 7, 2, 10, 0),
        (50, 0, 2, 10, 0),  # of no tick, as the clock did not go on: two are two
        (50, 0, 2, 10, 0),
    ]
    thread = tree_of(log(calls))
    assert sums(thread) == {(1,): (1, 100, 83), (1, 2): (4, 17, 17)}
    assert thread.dropped == 2


def test_ticks_of_more_than_32_bits() -> None:
    thread = tree_of(log([(10, 1 << 40, 1, 0, ROOTED)]))
    assert sums(thread) == {(1,): (1, 1 << 40, 1 << 40)}


def test_a_function_deep_inside_itself_has_one_node() -> None:
    deep = 300
    calls = [
        (1000 * (at + 1), 2000 * (deep - at), 5, 1000 * at, 0 if at else ROOTED)
        for at in range(deep)
    ]
    thread = tree_of(log(calls))
    assert len(thread.nodes) == 65  # as the agent has it: 64 levels around the deepest one
    assert sum(node.calls for node in thread.nodes) == deep
    assert sum(node.self_ticks for node in thread.nodes) == thread.nodes[0].total_ticks
    assert thread.nodes[-1].total_ticks == calls[64][1]  # of the outermost alone


def test_no_tick_is_two_calls_own() -> None:
    """Coroutines run by turns: 1 and 2 are on stacks of their own."""
    calls = [(0, 60, 1, 0, ROOTED), (10, 70, 2, 0, ROOTED), (20, 5, 3, 0, 0), (30, 10, 3, 10, 0)]
    thread = tree_of(log(calls))
    assert sorted(node.self_ticks for node in thread.nodes) == [5, 10, 10, 45]


def test_what_the_agent_took_is_nobody_s() -> None:
    thread = tree_of(log([(10, 500, 1, 0, ROOTED), (20, 30, 2, 10, 0)], waits=((60, 400),)))
    assert sums(thread) == {(1,): (1, 100, 70), (1, 2): (1, 30, 30)}


def test_a_call_whose_surrounding_one_was_lost() -> None:
    thread = tree_of(log([(20, 30, 2, 10, 0)]))
    (row,) = rows(thread)
    assert (row["parent"], row["caller"], row["calls"]) == (ROOT, 0, 1)


def test_a_return_that_cannot_be_seen() -> None:
    thread = tree_of(log([(20, 0, 2, 0x70, ROOTED | UNSEEN), (10, 0, 1, 0, ROOTED | LEFT)]))
    assert [(node.calls, node.timed, node.unseen) for node in thread.nodes] == [
        (1, 1, False),
        (1, 0, True),
    ]


def steps(calls: list[Call], opened: int = 0) -> tuple[list[tuple[int, int, int]], list[str]]:
    """Return what begins and ends, by function, and the notes of it."""
    clock = Clock()
    clock.add(1, 1, 1)  # a tick is a nanosecond
    clock.add(10**9, 10**9, 10**9)
    functions = {(call[2], headers.PROF_CYG): call[2] for call in calls}
    timeline = timeline_of(0, log(calls, opened=opened), functions, Times(clock))
    found = [(kind, time, int(timeline.functions[call])) for kind, time, call in timeline.steps()]
    return found, notes_of([timeline])


def test_slices_nest() -> None:
    calls = [(20, 10, 2, 10, 0), (30, 5, 3, 10, 0), (10, 100, 1, 0, ROOTED)]
    found, notes = steps(calls)
    assert found == [
        (BEGIN, 10, 1),
        (BEGIN, 20, 2),
        (END, 30, 2),
        (BEGIN, 30, 3),
        (END, 35, 3),
        (END, 110, 1),
    ]
    assert notes == []


def test_slices_that_overlap_end_with_those_around_them() -> None:
    found, notes = steps([(10, 50, 1, 0, ROOTED), (20, 90, 2, 0, ROOTED)])
    assert found == [(BEGIN, 10, 1), (BEGIN, 20, 2), (END, 60, 2), (END, 60, 1)]
    assert notes[0].startswith("1 calls overlap others of their thread")


def test_calls_that_were_left_at_once() -> None:
    """They all end when the innermost one has begun, which was the last thing to be reported."""
    calls = [(10, 20, 1, 0, ROOTED), (20, 10, 2, 10, 0), (30, 0, 3, 20, 0)]
    found, notes = steps(calls, opened=3)
    assert found == [
        (BEGIN, 10, 1),
        (BEGIN, 20, 2),
        (BEGIN, 30, 3),
        (END, 30, 3),
        (END, 30, 2),
        (END, 30, 1),
    ]
    assert notes == ["3 calls had not ended: they are shown to last to the last event"]


def test_a_call_without_an_end_is_a_moment() -> None:
    found, notes = steps([(10, 50, 1, 0, ROOTED), (20, 0, 2, 10, UNSEEN)])
    assert found == [(BEGIN, 10, 1), (INSTANT, 20, 2), (END, 60, 1)]
    assert notes == ["1 calls are shown as moments: their ends could not be seen"]


def test_a_call_without_any_time_is_left_out() -> None:
    found, notes = steps([(0, 0, 1, 0x70, ROOTED | UNSEEN), (20, 5, 2, 0x70, ROOTED)])
    assert found == [(BEGIN, 20, 2), (END, 25, 2)]
    assert notes == []
