# SPDX-License-Identifier: Apache-2.0
"""Documents that are compared: in which order, and which of them are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from soscope.errors import RecordingError
from soscope.instruments.mem.diff import BLOCKS, OBJECTS, compare

ROW = {"file": "a.py", "line": 1, "type": "int", "count": 5, "bytes": 140}
FRAME = {"image": None, "symbol": None, "offset": None, "file": None, "line": None}


def document(*rows: dict[str, Any], native: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    live = sum(row["count"] for row in rows)
    blocks = None
    if native is not None:
        blocks = {"live": sum(row["count"] for row in native)}
    return {
        "schema": "soscope/mem-report/1",
        "state": "complete",
        "survivors": list(rows),
        "native": native or [],
        "totals": {
            "objects": {"live": live} if rows else None,
            "native": blocks,
            "mapped": blocks and {"live": 0},
        },
        "notes": [],
    }


def written(path: Path, said: object) -> str:
    path.write_text(json.dumps(said))
    return str(path)


def test_growth_of_count_comes_first_then_bytes(tmp_path: Path) -> None:
    def row(kind: str, count: int, size: int) -> dict[str, Any]:
        return {**ROW, "type": kind, "count": count, "bytes": size}

    a = document(row("gone", 7, 70), row("same", 3, 30), row("more", 1, 1), row("fatter", 2, 20))
    b = document(row("same", 3, 30), row("more", 4, 4), row("new", 3, 3000), row("fatter", 2, 90))
    diff = compare(written(tmp_path / "a", a), written(tmp_path / "b", b))
    assert [row.type for row in diff.rows] == ["new", "more", "fatter", "same", "gone"]
    assert diff.rows[-1].growth == (-7, -70)
    assert (diff.what, diff.is_complete, diff.notes) == (OBJECTS, True, [])


def test_rows_of_several_processes_are_added_up(tmp_path: Path) -> None:
    a = document({**ROW, "pid": 1}, {**ROW, "pid": 2})
    diff = compare(written(tmp_path / "a", a), written(tmp_path / "b", document(ROW)))
    (row,) = diff.rows
    assert (row.count_a, row.count_b, row.bytes_a, row.bytes_b) == (10, 5, 280, 140)


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([], (None, 0)),
        ([FRAME], (None, 0)),
        ([{**FRAME, "image": "x"}], ("x", 0)),
        ([{**FRAME, "image": "x", "offset": 16}], ("x+0x10", 0)),
        ([{**FRAME, "image": "x", "symbol": "f", "offset": 1}], ("x!f", 0)),
        ([{**FRAME, "image": "x"}, {**FRAME, "file": "f.c", "line": 7}], ("f.c", 7)),
    ],
)
def test_a_block_is_at_its_innermost_known_line(
    frames: list[dict[str, Any]], place: tuple[str | None, int], tmp_path: Path
) -> None:
    native = [{"api": "malloc", "count": 2, "bytes": 20, "frames": frames}]
    path = written(tmp_path / "a", document(native=native))
    diff = compare(path, path)
    (row,) = diff.rows
    assert (row.file, row.line, row.type) == (*place, "malloc")
    assert diff.what == BLOCKS


def test_rows_that_were_left_out_are_said(tmp_path: Path) -> None:
    whole, short = document(ROW), document(ROW)
    short["totals"]["objects"]["live"] = 1005
    diff = compare(written(tmp_path / "a", whole), written(tmp_path / "b", short))
    assert diff.notes == [f"'{tmp_path}/b' has rows for 5 of 1,005 objects that were alive"]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        7,
        {},
        {"schema": "soscope/mem-where/1"},
        {"schema": "soscope/mem-report/1"},
        {**document(ROW), "survivors": None},
        {**document(ROW), "survivors": [7]},
        {**document(ROW), "totals": []},
        document({**ROW, "bytes": "many"}),
        document({**ROW, "line": True}),
        document({**ROW, "file": 3}),
        document(native=[{"api": "malloc", "count": 1, "bytes": 1, "frames": [{}]}]),
    ],
)
def test_what_is_no_document_is_refused(wrong: object, tmp_path: Path) -> None:
    path = written(tmp_path / "wrong", wrong)
    with pytest.raises(RecordingError, match="soscope mem"):
        compare(written(tmp_path / "right", document(ROW)), path)


def test_deeply_nested_and_cut_documents_are_refused(tmp_path: Path) -> None:
    right = written(tmp_path / "right", document(ROW))
    for text in ("{" + '"a":[' * 200_000, json.dumps(document(ROW))[:-9], "{\udcff"):
        (tmp_path / "wrong").write_text(text, errors="surrogateescape")
        with pytest.raises(RecordingError, match="neither"):
            compare(right, str(tmp_path / "wrong"))
