# SPDX-License-Identifier: Apache-2.0
"""Ways to functions have their times, and by how much these may be wrong."""

from __future__ import annotations

from soscope.instruments.trace.summary import CallTree, Way, named_ways
from soscope.model.image import ERROR_NONE, HOOKED, SLOT_JUMP_SLOT, TracedSlot


def way(symbol: str, returns: int, total: int, own: int, *below: Way) -> Way:
    slot = TracedSlot(
        0, 0, symbol, "", None, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, None, ERROR_NONE
    )
    made = Way(slot)
    made.calls = made.returns = returns
    made.total_ns, made.self_ns = total, own
    for each in below:
        assert each.slot is not None
        made.below[each.slot] = each
    return made


def grown(*top: Way) -> CallTree:
    tree = CallTree()
    for each in top:
        assert each.slot is not None
        tree.root.below[each.slot] = each
    return tree


def test_hooks_of_all_calls_inside_may_be_in_a_time() -> None:
    leaf = way("leaf", 40, 700, 700)
    middle = way("middle", 10, 1000, 300, leaf)
    rows = named_ways(grown(way("outer", 2, 5000, 4000, middle)), 25.0)
    assert [(row.names[2], row.doubt_ns, row.total_doubt_ns) for row in rows] == [
        ("outer", 25 * (2 + 10), 25 * (2 + 10 + 40)),
        ("middle", 25 * (10 + 40), 25 * (10 + 40)),
        ("leaf", 25 * 40, 25 * 40),
    ]


def test_a_way_that_may_take_no_time_comes_behind_one_that_does() -> None:
    rows = named_ways(grown(way("empty", 1000, 9000, 9000), way("slow", 1, 800, 800)), 25.0)
    assert [row.names[2] for row in rows] == ["slow", "empty"]
    rows = named_ways(grown(way("empty", 1000, 9000, 9000), way("slow", 1, 800, 800)), 0.0)
    assert [(row.names[2], row.doubt_ns) for row in rows] == [("empty", None), ("slow", None)]
