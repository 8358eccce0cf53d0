# SPDX-License-Identifier: Apache-2.0
"""Pictures of calls between images, of any size and with any names."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from soscope.instruments.trace.summary import ImageEdge, SummaryRow, edges_of, inside
from soscope.report.trace.graph import picture

HOSTILE = "lib<script>&\"'\x1b[31m\udcff.so"


def row(caller: str, callee: str, symbol: str, calls: int, own: int | None) -> SummaryRow:
    made = SummaryRow(caller, callee, symbol, "")
    made.calls = made.returns = calls
    if own is not None:
        made.total_ns = made.max_ns = 2 * own
        made.self_ns, made.min_ns, made.errors = own, 0, calls % 2
    return made


def drawn(edges: list[ImageEdge]) -> list[str]:
    """Draw a picture, and return the titles in it."""
    page = ET.fromstring(picture("a <b>", edges, {"prog"}, str))
    return [each.text or "" for each in page.iter() if each.tag.endswith("}title")]


def test_edges_add_up_functions_and_come_with_the_most_time_first() -> None:
    rows = [
        row("prog", "liba", "f", 3, 50),
        row("prog", "libb", "g", 1, 500),
        row("prog", "liba", "h", 4, 70),
        row("libb", "liba", "f", 1, 30),
    ]
    edges = edges_of(rows)
    assert [(edge.caller, edge.callee, edge.sums.calls) for edge in edges] == [
        ("prog", "libb", 1),
        ("prog", "liba", 7),
        ("libb", "liba", 1),
    ]
    assert [one.symbol for one in edges[1].functions] == ["h", "f"]
    assert {name: sums.calls for name, sums in inside(edges).items()} == {
        "prog": 0,
        "liba": 8,
        "libb": 1,
    }


@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("is_timed", [True, False])
def test_every_image_and_edge_is_drawn(size: int, is_timed: bool) -> None:
    names = ["prog", *(f"lib{number}.so" for number in range(size - 1))]
    rows = [
        row(one, other, "f", 5, 10 * at if is_timed else None)
        for at, one in enumerate(names)
        for other in names[at::3]
    ]
    titles = drawn(edges_of(rows))
    for name in names:
        assert sum(title.startswith(f"{name}: ") for title in titles) == 1
    edges = {(each.caller, each.callee) for each in rows if each.caller != each.callee}
    assert sum("→" in title for title in titles) == len(edges)


def test_names_are_no_markup() -> None:
    titles = drawn(edges_of([row("prog", HOSTILE, "<b>", 1, 10), row("", "", "f", 1, None)]))
    assert any("lib<script>&\"'?[31m" in title for title in titles)


def test_nothing_called_is_a_picture_that_says_so() -> None:
    assert "no calls were seen" in picture("x", [], set(), str)
