# SPDX-License-Identifier: Apache-2.0
"""Trees of callers and callees, compared with sums over all ways of many random ones."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from soscope.instruments.prof.views import (
    CALLS,
    SAMPLES,
    Context,
    Matches,
    callees_of,
    callers_of,
    trees_of,
)
from tests.support.files.profshapes import Shape, Way

Names = tuple[str, ...]
Sums = tuple[int | None, int | None, int | None]


def seen(root: Context) -> dict[Names, Sums]:
    """Return count, total and self of all ways below a root."""
    found: dict[Names, Sums] = {}
    rest: list[tuple[Names, Context]] = [((), root)]
    while rest:
        way, node = rest.pop()
        if way:
            found[way] = node.count, node.total_ns, node.self_ns
        for child in node.children.values():
            assert child.frame.symbol is not None
            rest.append(((*way, child.frame.symbol), child))
    return found


def wants(name: str) -> Matches:
    return lambda frame: frame.symbol == name


def random_ways(seed: int) -> list[Way]:
    """Return a tree of ways over five functions, recursion included."""
    dice = random.Random(seed)
    ways: list[Names] = [("a",)]
    for _ in range(60):
        way = (*dice.choice(ways), dice.choice("abcde"))
        if len(way) < 9 and way not in ways:
            ways.append(way)
    return [(way, dice.randrange(1, 9), dice.randrange(1000)) for way in ways]


def by_hand(ways: list[Way], name: str) -> tuple[dict[Names, list[int]], dict[Names, list[int]]]:
    """Return (count, total, self) of what is called inside `name`, and of who calls it."""
    callees: dict[Names, list[int]] = defaultdict(lambda: [0, 0, 0])
    callers: dict[Names, list[int]] = defaultdict(lambda: [0, 0, 0])
    for way, calls, own in ways:
        if name in way:
            inside = way[way.index(name) :]
            callees[inside][0] += calls
            callees[inside][2] += own
            for length in range(1, len(inside) + 1):
                callees[inside[:length]][1] += own
        if way[-1] == name:
            total = sum(ns for other, _, ns in ways if other[: len(way)] == way)
            back = way[::-1]
            for length in range(1, len(back) + 1):
                sums = callers[back[:length]]
                sums[0] += calls
                sums[1] += 0 if name in way[:-1] else total
                sums[2] += own
    return callees, callers


@pytest.mark.parametrize("seed", range(8))
def test_trees_say_what_all_ways_add_up_to(seed: int) -> None:
    ways = random_ways(seed)
    shape = Shape()
    shape.ways(ways)
    (view,) = trees_of(shape.profile)
    assert (view.what, view.is_whole) == (CALLS, True)
    assert {way: sums[0] for way, sums in seen(view.root).items()} == {
        way: calls for way, calls, _ in ways
    }
    assert view.root.total_ns == sum(own for _, _, own in ways) == view.root.self_ns
    for name in "abcde":
        callees, callers = by_hand(ways, name)
        for views, expected in (
            (callees_of(shape.profile, wants(name)), callees),
            (callers_of(shape.profile, wants(name)), callers),
        ):
            assert len(views) == bool(expected)
            for view in views:
                assert view.root.total_ns == sum(own for _, _, own in ways)
                assert {
                    way: [value or 0 for value in sums] for way, sums in seen(view.root).items()
                } == expected


def test_threads_are_added_up_or_stand_apart() -> None:
    shape = Shape()
    shape.ways([(("a",), 1, 10), (("a", "b"), 2, 5)])
    shape.ways([(("a",), 3, 20)], thread=shape.thread(11, "worker"))
    (view,) = trees_of(shape.profile)
    assert seen(view.root) == {("a",): (4, 35, 30), ("a", "b"): (2, 5, 5)}
    (view,) = trees_of(shape.profile, threads=True)
    main, worker = "thread 10 of process 10 (main)", "thread 11 of process 10 (worker)"
    assert seen(view.root) == {
        (main,): (None, 15, None),
        (main, "a"): (1, 15, 10),
        (main, "a", "b"): (2, 5, 5),
        (worker,): (None, 20, None),
        (worker, "a"): (3, 20, 20),
    }
    assert view.root.total_ns == 35


def test_of_single_calls_there_are_callers_and_callees_alone() -> None:
    shape = Shape()
    shape.arc("main", "a", 2, 100, 60)
    shape.arc("main", "b", 1, 30, 30)
    shape.arc("a", "b", 4, 40, 40)
    shape.arc(None, "a", 1, 7, 7)
    (view,) = trees_of(shape.profile)
    assert not view.is_whole
    assert view.root.self_ns == 137
    assert seen(view.root)["a", "b"] == (4, 40, 40)
    (view,) = callers_of(shape.profile, wants("b"))
    assert seen(view.root) == {("b",): (5, 70, 70), ("b", "main"): (1, 30, 30),
                               ("b", "a"): (4, 40, 40)}  # fmt: skip
    (view,) = callees_of(shape.profile, wants("a"))
    assert seen(view.root) == {("a",): (3, 107, 67), ("a", "b"): (4, 40, 40)}
    (view,) = callees_of(shape.profile, wants("main"))
    assert seen(view.root)["main",] == (None, None, None)


def test_calls_whose_ways_are_known_are_not_told_twice() -> None:
    shape = Shape()
    shape.ways([(("a",), 1, 10), (("a", "b"), 2, 5)])
    shape.arc("a", "b", 2, 5, 5)
    assert len(trees_of(shape.profile)) == 1
    shape.arc("b", "libc.so.6!read", 3, 2, 2)
    ways, arcs = trees_of(shape.profile)
    assert seen(arcs.root) == {("b",): (None, None, None), ("b", "read"): (3, 2, 2)}
    assert ways.is_whole
    assert not arcs.is_whole


def test_who_calls_the_first_function_of_a_way_is_told_by_single_calls() -> None:
    shape = Shape()
    shape.ways([(("a",), 3, 10), (("a", "a"), 2, 5)])
    shape.arc("app!main", "a", 3, 15, 10)
    shape.arc("a", "a", 2, 5, 5)
    ways, arcs = callers_of(shape.profile, wants("a"))
    assert seen(ways.root) == {("a",): (5, 15, 15), ("a", "a"): (2, None, 5)}
    assert seen(arcs.root) == {("a",): (3, 15, 10), ("a", "main"): (3, 15, 10)}


def test_samples_are_a_tree_of_their_own() -> None:
    shape = Shape()
    shape.sample("main", "a", "b", weight=3)
    shape.sample("main", "a")
    shape.sample()
    (view,) = trees_of(shape.profile)
    assert view.what == SAMPLES
    ms = 1_000_000
    assert seen(view.root) == {
        ("main",): (4, 4 * ms, 0),
        ("main", "a"): (4, 4 * ms, ms),
        ("main", "a", "b"): (3, 3 * ms, 3 * ms),
        ("?",): (1, ms, ms),
    }
    (view,) = callers_of(shape.profile, wants("b"))
    assert seen(view.root)["b", "a", "main"] == (3, 3 * ms, 3 * ms)


def test_functions_of_one_name_in_two_files_are_two() -> None:
    shape = Shape()
    shape.sample("/a/one.py:3:run", "/b/two.py:4:run")
    shape.sample("/a/one.py:9:run", "/b/two.py:4:run")
    (view,) = trees_of(shape.profile)
    (outer,) = view.root.children.values()
    assert (outer.frame.file, outer.count) == ("/a/one.py", 2)
    assert [child.frame.file for child in outer.children.values()] == ["/b/two.py"]


def test_counts_have_no_times() -> None:
    shape = Shape()
    shape.ways([(("a",), 1, 10), (("a", "b"), 2, 5)], timed=False)
    (view,) = trees_of(shape.profile)
    assert seen(view.root) == {("a",): (1, None, None), ("a", "b"): (2, None, None)}


@pytest.mark.slow
def test_a_tree_may_be_deep() -> None:
    shape = Shape()
    shape.ways([(("a",) * depth, 1, 1) for depth in range(1, 1100)])
    for make in (callees_of, callers_of):
        (view,) = make(shape.profile, wants("a"))
        assert max(map(len, seen(view.root))) == 1099
