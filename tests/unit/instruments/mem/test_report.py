# SPDX-License-Identifier: Apache-2.0
"""Recordings of memory that are made by hand, as a report has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soscope.errors import RecordingError
from soscope.instruments.mem.model import MemReport
from soscope.instruments.mem.report import report_of
from soscope.instruments.mem.run import is_interpreter
from soscope.model.call import ProcessExit, ProcessStart
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Tee
from soscope.recording.writer import Writer
from soscope.report.mem import document, size_text, stats, text
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REPORT

RUNTIME = {"name": "python", "version": "3.11.7", "libpython": "static"}
FIRST = [["old.py", 1, "str", "builtins.str", 9, 900]]
ROWS: list[list[object]] = [
    ["app.py", 10, "list", "builtins.list", 3, 300],
    ["app.py", 7, "Thing", "app.Thing", 40, 1920],
    [None, 0, "dict", "builtins.dict", 3, 700],
]


def writer_at(path: Path, options: dict[str, object]) -> Writer:
    return Writer(str(path), command=["app.py"], options=options, versions={}, start_ns=5)


def recorded(path: Path, options: dict[str, object], *, pids: tuple[int, ...] = (40,)) -> MemReport:
    writer = writer_at(path, options)
    sink = Tee(writer)
    for pid in pids:
        sink.event(ProcessStart(10, pid, "start" if pid == 40 else "fork", 40, "/bin/python"))
        first: dict[str, object] = {"pid": pid, "runtime": RUNTIME, "rows": FIRST, "last": False}
        sink.objects(0, first)
        counts = {"created": 100, "destroyed": 54}
        sink.objects(0, {"pid": pid, "runtime": RUNTIME, "rows": ROWS, "last": True, **counts})
    for pid in pids:
        sink.event(ProcessExit(20, pid, 3, None))
    writer.end(complete=True, why="exit", status=3)
    with RecordingFile.open(path) as recording:
        return report_of(recording)


def test_the_last_word_of_a_process_counts(tmp_path: Path) -> None:
    report = recorded(tmp_path / "a", {"objects": {"mode": "exact"}})
    assert [(row.file, row.line, row.type, row.count, row.bytes) for row in report.survivors] == [
        ("app.py", 7, "Thing", 40, 1920),
        (None, 0, "dict", 3, 700),
        ("app.py", 10, "list", 3, 300),
    ]
    assert report.exit is not None
    assert (report.state, report.exit.status, report.exit.signal) == ("complete", 3, None)
    said = json.loads(document(report))
    assert wrong_members(said, REPORT) == []
    assert said["runtime"] == RUNTIME
    assert (said["objects"], said["native_mode"]) == ("exact", "off")
    assert said["totals"]["objects"] == {
        "live": 46,
        "live_bytes": 2920,
        "created": 100,
        "destroyed": 54,
    }
    assert said["totals"]["native"] is None
    assert "pid" not in said["survivors"][0]
    assert len(json.loads(document(report, 2))["survivors"]) == 2


def test_lines_are_those_of_memprof(tmp_path: Path) -> None:
    report = recorded(tmp_path / "a", {"objects": {"mode": "exact"}})
    assert stats(report) == ("     40 app.py:7:Thing\n      3 ?:0:dict\n      3 app.py:10:list\n")
    named = recorded(tmp_path / "b", {"objects": {"mode": "exact", "qualname": True}})
    assert stats(named, 1) == "     40 app.py:7:app.Thing\n"
    assert "app.py:7:Thing" in text(report)


def test_with_children_each_row_has_its_process(tmp_path: Path) -> None:
    options: dict[str, object] = {"objects": {"mode": "exact"}, "follow": True}
    report = recorded(tmp_path / "a", options, pids=(40, 41))
    said = json.loads(document(report))
    assert wrong_members(said, REPORT) == []
    assert sorted(row["pid"] for row in said["survivors"]) == [40] * 3 + [41] * 3
    assert [process["parent"] for process in said["processes"]] == [40, 40]


def test_a_recording_without_its_end_is_cut(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "a", {"objects": {"mode": "exact"}})
    writer.event(ProcessStart(10, 40, "start", None, "/bin/python"))
    writer.close()
    with RecordingFile.open(tmp_path / "a") as recording:
        report = report_of(recording)
    assert (report.state, report.exit) == ("cut", None)
    assert report.cut is not None
    assert report.cut.at_byte == (tmp_path / "a").stat().st_size
    assert "the recording is not complete (cut)" in text(report)


def test_other_recordings_are_refused(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "a", {})
    writer.end(complete=True, why="exit")
    refused = pytest.raises(RecordingError, match="is a recording of soscope trace")
    with RecordingFile.open(tmp_path / "a") as recording, refused:
        report_of(recording)


def test_sizes_have_units() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
    ]


def test_interpreters_are_known_by_name_and_by_first_line(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o755)
    link = tmp_path / "tool"
    link.symlink_to("/usr/bin/python3")
    assert is_interpreter(["python3", "x.py"])
    assert is_interpreter(["/opt/none/ruby2.7"])
    assert is_interpreter([str(script)])
    assert is_interpreter([str(link)])
    assert not is_interpreter(["cat", "python3"])
    assert not is_interpreter([str(tmp_path)])


@pytest.mark.parametrize(
    "row",
    [
        "row",
        ["app.py", 10, "list"],
        ["app.py", "ten", "list", "builtins.list", 3, 300],
        [10, 10, "list", "builtins.list", 3, 300],
        ["app.py", 10, None, "builtins.list", 3, 300],
        ["app.py", 10, "list", "builtins.list", "3", 300],
        ["app.py", 10, "list", "builtins.list", 3, float("inf")],
    ],
    ids=str,
)
def test_a_row_that_is_none_is_damage(row: object, tmp_path: Path) -> None:
    path = tmp_path / "a"
    writer = writer_at(path, {"objects": {"mode": "exact"}})
    sink = Tee(writer)
    sink.event(ProcessStart(10, 40, "start", 40, "/bin/python"))
    sink.objects(0, {"pid": 40, "runtime": RUNTIME, "rows": [*ROWS, row], "last": True})
    writer.end(complete=True, why="exit", status=3)
    with RecordingFile.open(path) as recording:
        report = report_of(recording)
    assert len(report.survivors) == len(ROWS)
    assert report.dropped == 1
    assert report.notes == ["1 rows of objects are damaged, and left out"]
