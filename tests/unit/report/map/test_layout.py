# SPDX-License-Identifier: Apache-2.0
"""Pictures of any graph: boxes beside each other, lines between them, all within the page."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.live.slots.bindings import BOUND, HOOKED, INTERPOSED, UNBOUND
from soscope.report import mapsvg
from soscope.report.graph import BOX, GraphLayout, arrange
from soscope.report.mapprocess import Edge, Graph, Node
from soscope.report.words import shortened

STATES = (BOUND, UNBOUND, INTERPOSED, HOOKED)


def graph(size: int, pairs: list[tuple[int, int, str]]) -> Graph:
    made = Graph("process 1: /a <program>")
    made.nodes = [
        Node(at, f"lib{'x' * (at * 7 % 40)}{at}.so", is_image=at % 5 != 4, is_main=not at)
        for at in range(size)
    ]
    seen = set()
    for one, other, state in pairs:
        start, end = made.nodes[one % size], made.nodes[other % size]
        if start is end or (start, end) in seen:
            continue
        seen.add((start, end))
        edge = Edge(start, end)
        edge.counts = {state: 3, BOUND: 2}
        edge.names = ["a&b", "c"]
        edge.by_state = {state: ["a&b"], BOUND: ["c"]}
        made.edges.append(edge)
        made.ranks.add((start, end))
    arrange(made)
    return made


PAIRS = st.lists(
    st.tuples(st.integers(0, 39), st.integers(0, 39), st.sampled_from(STATES)), max_size=120
)


@settings(max_examples=60)
@given(st.integers(1, 40), PAIRS)
def test_nothing_lies_upon_anything(size: int, pairs: list[tuple[int, int, str]]) -> None:
    made = graph(size, pairs)
    layout = GraphLayout(made, 90, 500)
    spots = list(layout.boxes.values())
    assert len(spots) == size
    for spot in spots:
        assert 0 <= spot.x - spot.width / 2 <= spot.x + spot.width / 2 <= layout.width
        assert 90 <= spot.y - BOX / 2 <= spot.y + BOX / 2 <= layout.height
        for other in spots:
            if other is not spot and other.y == spot.y:
                assert abs(other.x - spot.x) > (other.width + spot.width) / 2
    for edge in made.edges:
        (x, y), *gates, (end_x, end_y) = layout.ways[edge]
        start, end = layout.boxes[edge.start], layout.boxes[edge.end]
        assert abs(x - start.x) <= start.width / 2
        assert abs(end_x - end.x) <= end.width / 2
        assert abs(y - start.y) == abs(end_y - end.y) == BOX / 2
        # it passes every row between the two, and each between its boxes
        assert len(gates) == max(abs(start.row - end.row) - 1, 0)
        for at_x, at_y in gates:
            assert min(start.y, end.y) < at_y < max(start.y, end.y)
            assert all(abs(at_x - one.x) > one.width / 2 for one in spots if one.y == at_y)


@settings(max_examples=30)
@given(st.integers(1, 40), PAIRS)
def test_every_line_and_box_is_drawn(size: int, pairs: list[tuple[int, int, str]]) -> None:
    made = graph(size, pairs)
    text = mapsvg.document(made)
    root = ET.fromstring(text)
    drawn = [one for one in root.iter() if one.get("fill") == "none"]
    assert len(drawn) == len(made.edges)
    markers = {one.get("id") for one in root.iter() if one.tag.endswith("marker")}
    ends = {(one.get("marker-end") or "")[5:-1] for one in drawn}
    assert ends <= markers
    texts = {one.text for one in root.iter() if one.tag.endswith("text")}
    assert {shortened(node.name, 28) for node in made.nodes} <= texts
    assert mapsvg.document(made) == text


def test_what_is_remarkable_has_its_names() -> None:
    made = graph(3, [(0, 1, HOOKED), (1, 2, BOUND)])
    text = mapsvg.document(made)
    assert ">a&amp;b +2</text>" in text
    assert "3 hooked: changed since" in text
    assert "interposed" not in text.partition("</defs>")[2]


def test_a_long_name_keeps_its_beginning() -> None:
    name = "_multiarray_umath.cpython-311-x86_64-linux-gnu.so"
    assert shortened(name, 28) == "_multiarray_umath.c…x-gnu.so"
    assert shortened("libc.so.6", 28) == "libc.so.6"
