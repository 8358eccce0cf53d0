# SPDX-License-Identifier: Apache-2.0
"""Two profiles compared: what has changed, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from soscope.errors import RecordingError
from soscope.instruments.prof.diff import ProfDiff, compare
from soscope.instruments.prof.model import CUT, ProfFunction
from soscope.report.prof import diff_document, diff_text
from soscope.report.prof import document as report
from tests.support.files.profshapes import Shape


def compared(
    tmp_path: Path, a: Shape, b: Shape, *, limit: int | None = None, samples: bool = False
) -> ProfDiff:
    """Compare the documents of two profiles."""
    paths = []
    for name, shape in (("a.json", a), ("b.json", b)):
        path = tmp_path / name
        path.write_text(report(shape.profile, limit))
        paths.append(str(path))
    return compare(*paths, samples=samples)


def two_runs() -> tuple[Shape, Shape]:
    a, b = Shape(), Shape()
    for name, before, after in (
        ("slower", (10, 1000), (10, 3000)),
        ("faster", (10, 5000), (10, 4500)),
        ("more", (10, 1000), (18, 1800)),
        ("fewer", (10, 1000), (7, 700)),
        ("mixed", (10, 1000), (20, 1500)),  # cheaper, but so many more
        ("same", (3, 30), (3, 30)),
        ("gone", (4, 40), None),
        ("new", None, (6, 60)),
    ):
        for shape, said in ((a, before), (b, after)):
            if said is not None:
                shape.sums(f"lib.so!{name}", said[0], said[1] * 2, said[1])
    return a, b


def test_it_is_said_why_times_have_changed(tmp_path: Path) -> None:
    diff = compared(tmp_path, *two_runs())
    assert [(row.frame.symbol, row.change, row.why) for row in diff.rows] == [
        ("slower", 2000, "slower"),
        ("more", 800, "more"),
        ("mixed", 500, "more"),
        ("faster", -500, "faster"),
        ("fewer", -300, "fewer"),
        ("new", 60, "new"),
        ("gone", -40, "gone"),
        ("same", 0, ""),
    ]
    assert diff.total_b - diff.total_a == sum(row.change for row in diff.rows) == 2520


def test_the_table_has_what_has_changed(tmp_path: Path) -> None:
    diff = compared(tmp_path, *two_runs())
    head, table = diff_text(diff, 2).replace(f"{tmp_path}/", "").split("\n\n")
    assert head == "A: a.json: 9.070 µs of calls\nB: b.json: 11.590 µs of calls"
    assert table == (
        "      change       %   seconds A   seconds B   calls A   calls B why    image  function\n"
        "------------ ------- ----------- ----------- --------- --------- ------ ------"
        " --------------------\n"
        "+0.000002000  +200.0 0.000001000 0.000003000        10        10 slower lib.so slower\n"
        "+0.000000800   +80.0 0.000001000 0.000001800        10        18 more   lib.so more\n"
        "-0.000000280       -           -           -         -         -               (5 more)\n"
        "------------ ------- ----------- ----------- --------- --------- ------ ------"
        " --------------------\n"
        "+0.000002520   +27.8           -           -         -         -               total\n"
        "1 function unchanged\n"
    )
    assert "new    lib.so new" in diff_text(diff)


def test_the_document_has_both_sides(tmp_path: Path) -> None:
    diff = compared(tmp_path, *two_runs())
    said: dict[str, Any] = json.loads(diff_document(diff))
    assert (said["schema"], said["what"], len(said["rows"])) == ("soscope/prof-diff/1", "times", 8)
    assert said["rows"][6] == {
        "image": "lib.so", "symbol": "gone", "addr": None, "file": None, "why": "gone",
        "change_calls": None, "change_ns": -40, "doubt_ns": None, "a_calls": 4, "a_self_ns": 40,
        "a_total_ns": 80, "a_doubt_ns": None, "b_calls": None, "b_self_ns": None,
        "b_total_ns": None, "b_doubt_ns": None,
    }  # fmt: skip
    assert len(json.loads(diff_document(diff, 3))["rows"]) == 3


def test_counts_are_compared_where_times_are_on_one_side_alone(tmp_path: Path) -> None:
    a, _ = two_runs()
    b = Shape()
    b.sums("lib.so!same", 5)
    b.sums("lib.so!more", 10)
    diff = compared(tmp_path, a, b)
    assert diff.what == "calls"
    changed = {row.frame.symbol: (row.change, row.why) for row in diff.rows}
    assert changed["same"] == (2, "more")
    assert changed["more"] == (0, "")
    assert changed["gone"] == (-4, "gone")
    assert "+2" in diff_text(diff)
    assert "seconds" not in diff_text(diff)


def test_samples_are_compared(tmp_path: Path) -> None:
    a, b = Shape(), Shape()
    a.sample("app!main", "/srv/app.py:3:run", weight=4)
    b.sample("app!main", "/srv/app.py:9:run", weight=6)
    b.sample("app!main", "/lib/other.py:3:run")
    diff = compared(tmp_path, a, b)
    assert diff.what == "samples"
    ms = 1_000_000
    assert [(row.frame.file, row.change, row.why) for row in diff.rows] == [
        ("/srv/app.py", 2 * ms, "longer"),
        ("/lib/other.py", ms, "new"),
        (None, 0, ""),
    ]
    a.sums("f", 1, 5, 5)
    b.sums("f", 1, 6, 6)
    assert compared(tmp_path, a, b).what == "times"
    assert compared(tmp_path, a, b, samples=True).what == "samples"
    for shape in (a, b):  # where nobody said how to profile, samples tell of all that ran
        assert compared(tmp_path, a, b).what == "times"
        shape.profile.is_chosen, shape.profile.processor_ns = True, 9 * ms
    assert compared(tmp_path, a, b).what == "samples"


def test_functions_without_a_name_are_compared_by_address(tmp_path: Path) -> None:
    a, b = Shape(), Shape()
    for shape, calls in ((a, 3), (b, 5)):
        shape.sums("lib.so!?", calls)
        shape.profile.functions[0] = ProfFunction("lib.so", "?", 0x1230, 8)
    row = diff_text(compared(tmp_path, a, b)).splitlines()[5]
    assert row.split()[-3:] == ["more", "lib.so", "0x1230"]


def test_what_is_missing_is_noted(tmp_path: Path) -> None:
    a, b = two_runs()
    b.profile.state = CUT
    b.profile.notes.append("a note")
    diff = compared(tmp_path, a, b)
    assert not diff.is_complete
    assert [note.replace(f"{tmp_path}/", "") for note in diff.notes] == [
        "'b.json' is not complete: cut",
        "'b.json': a note",
    ]
    diff = compared(tmp_path, *two_runs(), limit=1)
    assert diff.notes[0].endswith("it has rows for 10 of 57 calls")


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "soscope/mem-report/1"},
        {"state": "well"},
        {"functions": [{}]},
        {"functions": 3},
        {"totals": None},
        {"notes": [3]},
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    shape, _ = two_runs()
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(report(shape.profile))
    bad.write_text(json.dumps(json.loads(good.read_text()) | change))
    with pytest.raises(RecordingError, match="document of soscope prof"):
        compare(str(good), str(bad))


def test_nothing_in_common_is_said(tmp_path: Path) -> None:
    a, b = Shape(), Shape()
    a.sums("f", 1)
    b.sample("f")
    with pytest.raises(RecordingError, match=r"a.json' has calls, '.*b.json' has samples"):
        compared(tmp_path, a, b)
    with pytest.raises(RecordingError, match="cannot open"):
        compare(str(tmp_path / "missing"), str(tmp_path / "missing"))


def test_a_change_that_may_be_an_error_is_marked_and_comes_last(tmp_path: Path) -> None:
    a, b = Shape(), Shape()
    for shape, own in ((a, 1000), (b, 9000)):
        shape.sums("lib.so!empty", 100, own, own)
        shape.profile.sums[-1].doubt_ns = 4500
    for shape, own in ((a, 1000), (b, 1700)):
        shape.sums("lib.so!slow", 1, own, own)
        shape.profile.sums[-1].doubt_ns = 25
    diff = compared(tmp_path, a, b)
    assert [(row.frame.symbol, row.change, row.doubt_ns) for row in diff.rows] == [
        ("slow", 700, 50),
        ("empty", 8000, 9000),
    ]
    shown = diff_text(diff).splitlines()
    assert shown[5].split()[:3] == ["+0.000000700", "+70.0", "0.000001000"]
    assert shown[6].split()[:4] == ["+0.000008000?", "+800.0", "0.000001000?", "0.000009000"]
    assert shown[8].split()[0] == "+0.000008700"  # a total has no mark
    assert shown[9].startswith("? marks times that are no larger than their error")
    row = json.loads(diff_document(diff))["rows"][1]
    assert (row["doubt_ns"], row["a_doubt_ns"], row["b_doubt_ns"]) == (9000, 4500, 4500)


def test_the_rule_about_marks_stands_where_one_is_printed(tmp_path: Path) -> None:
    a, b = Shape(), Shape()
    for shape, slow, asked in ((a, 1_000_000, 50), (b, 9_000_000, 60)):
        shape.sums("lib.so!slow", 10, slow, slow)
        shape.sums("lib.so!asked", 10, asked, asked)
        shape.profile.sums[-1].doubt_ns = 90
    diff = compared(tmp_path, a, b)
    assert ["? marks times" in diff_text(diff, limit) for limit in (None, 1)] == [True, True]
    for row in diff.rows[1:]:  # the doubts of both sides are those of the rest, too
        row.doubt_ns = 5
    assert ["0?" in diff_text(diff, limit) for limit in (None, 1)] == [True, False]
    assert ["? marks times" in diff_text(diff, limit) for limit in (None, 1)] == [True, False]


def test_a_doubt_that_one_side_knows_is_one_of_the_change(tmp_path: Path) -> None:
    a, b = Shape(), Shape()
    for shape, own in ((a, 1000), (b, 1300)):
        shape.sums("lib.so!known", 10, own, own)
        shape.sums("lib.so!unknown", 10, own, own)
    b.profile.sums[0].doubt_ns = 400
    diff = compared(tmp_path, a, b)
    assert {row.frame.symbol: row.doubt_ns for row in diff.rows} == {"known": 400, "unknown": None}
    marked = [line.split() for line in diff_text(diff).splitlines() if line.endswith("nown")]
    assert [(line[-1], line[0].endswith("?")) for line in marked] == [
        ("unknown", False),
        ("known", True),
    ]
