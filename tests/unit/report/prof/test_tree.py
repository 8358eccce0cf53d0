# SPDX-License-Identifier: Apache-2.0
"""Ways through a profile, as a tree and as a document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from soscope.errors import RecordingError
from soscope.instruments.prof.model import ProfFunction
from soscope.instruments.prof.views import callees_of, callers_of, matcher, nothing_called, trees_of
from soscope.report.proftree import CALLERS, TREE, text, tree_document
from tests.support.files.profshapes import Shape, Way

WAYS: list[Way] = [
    (("main",), 1, 100),
    (("main", "a"), 2, 300),
    (("main", "a", "b"), 10, 500),
    (("main", "c"), 1, 97),
    (("main", "c", "b"), 1, 3),
]


def shape_of_ways(*, timed: bool = True) -> Shape:
    shape = Shape()
    shape.ways(WAYS, timed=timed)
    return shape


def rows_of(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines() if not line.startswith("---")][1:-1]


def test_what_is_light_is_one_row() -> None:
    profile = shape_of_ways().profile
    assert text(profile, trees_of(profile), 0.5) == (
        "% time       total     seconds     calls image  function\n"
        "------ ----------- ----------- --------- ------ --------------------\n"
        "100.00 0.000001000 0.000000100         1 lib.so main\n"
        " 80.00 0.000000800 0.000000300         2 lib.so   a\n"
        " 50.00 0.000000500 0.000000500        10 lib.so     b\n"
        " 10.00 0.000000100 0.000000097         1 lib.so   c\n"
        "     -           - 0.000000003         1        (1 more)\n"
        "------ ----------- ----------- --------- ------ --------------------\n"
        "100.00           - 0.000001000        15        total\n"
    )


def test_the_heaviest_rows_stand_with_what_they_are_inside_of() -> None:
    profile = shape_of_ways().profile
    rows = rows_of(text(profile, trees_of(profile), 0, 3))
    assert [row[-1] for row in rows] == ["main", "a", "b", "more)"]
    assert rows[-1][2:4] == ["0.000000100", "2"]


def test_callers_and_callees() -> None:
    profile = shape_of_ways().profile
    rows = rows_of(text(profile, callers_of(profile, matcher("b")), 0))
    assert [(row[0], row[3], row[-1]) for row in rows] == [
        ("50.30", "11", "b"),
        ("50.00", "10", "a"),
        ("50.00", "10", "main"),
        ("0.30", "1", "c"),
        ("0.30", "1", "main"),
    ]
    rows = rows_of(text(profile, callees_of(profile, matcher("a")), 0))
    assert [(row[0], row[3], row[-1]) for row in rows] == [
        ("80.00", "2", "a"),
        ("50.00", "10", "b"),
    ]


def test_of_a_small_part_the_same_is_shown() -> None:
    profile = shape_of_ways().profile
    for make in (callers_of, callees_of):
        rows = rows_of(text(profile, make(profile, matcher("c")), 50))
        assert rows[0][-1] == "c"


def test_counts_alone_have_no_times() -> None:
    profile = shape_of_ways(timed=False).profile
    rows = rows_of(text(profile, trees_of(profile), 0))
    assert rows[0] == ["100.00", "1", "lib.so", "main"]
    assert [row[:2] for row in rows[1:]] == [
        ["80.00", "2"],
        ["66.67", "10"],
        ["13.33", "1"],
        ["6.67", "1"],
    ]


def test_single_calls_stand_below_images() -> None:
    shape = Shape()
    shape.arc("app!", "libc.so.6!qsort", 1, 900, 600)
    shape.arc("app!", "libc.so.6!strcmp", 50, 300, 300)
    shape.arc(None, "app!start", 1, 100, 100)
    shown = text(shape.profile, trees_of(shape.profile), 0)
    assert [(row[0], *row[-2:]) for row in rows_of(shown)[:-1]] == [
        ("90.00", "app", "(any)"),
        ("60.00", "libc.so.6", "qsort"),
        ("30.00", "libc.so.6", "strcmp"),
        ("10.00", "-", "?"),
        ("10.00", "app", "start"),
    ]
    assert shown.endswith("the callers are known, and not the ways to them\n")
    for pattern in ("app", "@app", "ap*"):
        (view,) = callees_of(shape.profile, matcher(pattern))
        assert "(any)" in text(shape.profile, [view], 0)


def test_functions_without_a_name_stand_by_their_address() -> None:
    shape = Shape()
    shape.arc("app!?", "libc.so.6!read", 2)
    shape.arc("app!f", "app!?", 2)
    function = shape.profile.functions[0]
    shape.profile.functions[0] = ProfFunction("app", "?", 0x1230, 8)
    assert function.symbol == "?"
    views = callees_of(shape.profile, matcher("0x1230"))
    assert [row[-1] for row in rows_of(text(shape.profile, views, 0))][:2] == ["0x1230", "read"]
    rows = json.loads(tree_document(shape.profile, views, TREE))["rows"]
    assert [row["addr"] for row in rows] == ["0x1230", None]
    assert [row["symbol"] for row in rows] == [None, "read"]


def test_several_trees_have_titles() -> None:
    shape = shape_of_ways()
    shape.arc("app!run", "main", 1, 1000, 100)
    shape.sample("main")
    shown = text(shape.profile, trees_of(shape.profile), 0)
    assert [part.partition("\n")[0] for part in shown.split("\n\n")] == [
        "calls:", "calls of which only the callers are known:", "samples:",
    ]  # fmt: skip


def test_nothing_is_said_to_be_nothing() -> None:
    assert text(Shape().profile, [], 0) == "no ways to functions were recorded\n"


def test_the_document_has_all_rows() -> None:
    shape = shape_of_ways()
    shape.sample("main", "/srv/app.py:3:run", weight=2)
    profile = shape.profile
    said: dict[str, Any] = json.loads(tree_document(profile, trees_of(profile), TREE))
    assert (said["schema"], said["way"], said["function"]) == ("soscope/prof-tree/1", "tree", None)
    rows = said["rows"]
    assert [row["id"] for row in rows] == list(range(7))
    assert [row["above"] for row in rows] == [None, 0, 1, 0, 3, None, 5]
    assert [row["depth"] for row in rows] == [0, 1, 2, 1, 2, 0, 1]
    assert rows[2] == {
        "id": 2, "above": 1, "source": "ways", "depth": 2, "image": "lib.so", "symbol": "b",
        "addr": None, "file": None, "line": None, "calls": 10, "samples": None,
        "total_ns": 500, "total_doubt_ns": None, "self_ns": 500, "doubt_ns": None,
    }  # fmt: skip
    assert rows[6]["file"] == "/srv/app.py"
    assert (rows[6]["calls"], rows[6]["samples"]) == (None, 2)
    views = callers_of(profile, matcher("b"))
    said = json.loads(tree_document(profile, views, CALLERS, "b", limit=2))
    assert (said["way"], said["function"]) == ("callers", "b")
    assert [row["symbol"] for row in said["rows"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("read", {"read"}),
        ("rea*", {"read", "read@plt"}),
        ("read@plt", {"read@plt"}),
        ("*@libc*", {"read", "operator[](int)"}),
        ("*@libz*", {"ns::f(int, char)"}),
        ("ns::f", {"ns::f(int, char)"}),
        ("ns::f(int, char)@libz.so", {"ns::f(int, char)"}),
        ("operator[](int)", {"operator[](int)"}),
        (r"operator\[\]*@libc.so", {"operator[](int)"}),
        ("@app", {""}),
    ],
)
def test_patterns_mean_functions(pattern: str, wanted: set[str]) -> None:
    shape = Shape()
    for name in ("libc.so!read", "app!read@plt", "libz.so!ns::f(int, char)",
                 "libc.so!operator[](int)"):  # fmt: skip
        shape.arc("app!", name, 1)
    views = callees_of(shape.profile, matcher(pattern))
    found = {node.frame.symbol for view in views for node in view.root.children.values()}
    assert found == wanted


def test_a_wrong_name_has_near_ones() -> None:
    shape = Shape()
    shape.arc("app!", "libc.so!malloc", 1)
    error = nothing_called(shape.profile, "mallc@libc*")
    assert isinstance(error, RecordingError)
    assert (error.message, error.hint) == (
        "no function of the profile is called 'mallc@libc*'", "there is malloc",
    )  # fmt: skip


def test_times_of_a_tree_that_may_be_as_wrong_as_they_are_long_are_marked_and_come_last() -> None:
    shape = Shape()
    shape.thread(1)
    # of 10,000 calls of an empty function nobody knows whether they took any time
    shape.ways(
        [(("main",), 1, 500), (("main", "empty"), 10_000, 9_000), (("main", "slow"), 1, 800)]
    )
    main, empty, slow = shape.profile.nodes
    main.doubt_ns, main.total_doubt_ns = 450, 9_900
    empty.doubt_ns = empty.total_doubt_ns = 9_400
    slow.doubt_ns = slow.total_doubt_ns = 30
    shown = text(shape.profile, trees_of(shape.profile), 0)
    rows = [line.split() for line in shown.splitlines()]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows[2:5]] == [
        ("100.00", "0.000010300", "0.000000500", "main"),
        ("7.77", "0.000000800", "0.000000800", "slow"),
        ("87.38?", "0.000009000?", "0.000009000?", "empty"),
    ]
    assert "? marks times that are no larger than their error" in shown
    said = json.loads(tree_document(shape.profile, trees_of(shape.profile), TREE))
    assert [(row["doubt_ns"], row["total_doubt_ns"]) for row in said["rows"]] == [
        (450, 9_900),
        (30, 30),
        (9_400, 9_400),
    ]
    called = callers_of(shape.profile, matcher("empty"))
    (line,) = [line for line in text(shape.profile, called, 0).splitlines() if "main" in line]
    assert line.split()[0].endswith("?")  # a caller has the doubt of what it called


def test_arcs_of_which_the_times_may_be_as_wrong_as_they_are_long_are_marked() -> None:
    shape = Shape()
    shape.arc("main", "empty", 10_000, 9_000, 9_000)
    shape.arc("main", "slow", 1, 800, 800)
    for arc, doubt in zip(shape.profile.arcs, (9_400, 30), strict=True):
        arc.doubt_ns = arc.total_doubt_ns = doubt
    shown = text(shape.profile, trees_of(shape.profile), 0)
    rows = {line.split()[-1]: line.split() for line in shown.splitlines()[2:5]}
    assert rows["empty"][0] == "91.84?"
    assert rows["slow"][0] == "8.16"
    assert rows["main"][0].endswith("100.00")


def test_shares_are_of_what_is_known_if_the_first_calls_have_no_time() -> None:
    shape = Shape()
    shape.thread(1)
    shape.ways([(("main",), 1, 0), (("main", "a"), 10, 300), (("main", "b"), 10, 100)])
    shape.profile.nodes[0].total_ns = shape.profile.nodes[0].self_ns = None
    rows = [line.split() for line in text(shape.profile, trees_of(shape.profile), 0).splitlines()]
    assert [(row[0], row[-1]) for row in rows[2:5]] == [
        ("100.00", "main"),
        ("75.00", "a"),
        ("25.00", "b"),
    ]
    assert rows[-1][0] == "100.00"
