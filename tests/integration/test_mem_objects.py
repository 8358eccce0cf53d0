# SPDX-License-Identifier: Apache-2.0
"""Objects of Python that stay alive, by file, line and type: exactly those that are known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.pythons import few_pythons, pythons
from tests.support.processes.run import besides_cost, run
from tests.support.targets.survivors import TARGETS, counts, marks, report, soscope

ALIVE, ENDS, RECOMPILED, REUSED, TRACING = (
    TARGETS / f"{name}.py" for name in ("alive", "ends", "recompiled", "reused", "tracing")
)
PYTHON = "/usr/bin/python3"


def line_of(text: str) -> int:
    """Return the line of ENDS that has a text."""
    lines = enumerate(ENDS.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if text in line]
    return number


KEPT = line_of("alive: 1234 str")
WAYS = {
    "kill": (None, "SIGKILL"),
    "term": (None, "SIGTERM"),
    "abort": (None, "SIGABRT"),
    "fault": (None, "SIGSEGV"),
    "_exit": (3, None),
    "exec": (0, None),
    "exit": (5, None),
    "raise": (1, None),
    "vfork": (0, None),
}


def record(
    recording: Path, *words: str | os.PathLike[str], **how: Any
) -> subprocess.CompletedProcess[str]:
    return soscope("mem", "run", "--objects", "-o", recording, *words, **how)


@pytest.mark.every(4)
@pytest.mark.parametrize("python", pythons())
def test_each_line_leaves_what_its_mark_says(python: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    done = record(recording, "--", python, ALIVE)
    assert (done.returncode, done.stdout, besides_cost(done.stderr)) == (0, "14088\n", "")
    document = report(recording)
    assert document["state"] == "complete"
    assert document["objects"] == "exact"
    wanted, seen = marks(ALIVE, python), counts(document, str(ALIVE))
    assert {line: seen.get(line, {}) for line in wanted} == wanted
    rows = [row for row in document["survivors"] if str(row["file"]).startswith("made")]
    made = [row["count"] for row in rows if row["type"] == "list"]
    assert made == [10] * 20  # of code that was gone long before


@pytest.mark.every(5)
@pytest.mark.parametrize("python", pythons())
def test_addresses_that_have_another_type_or_file_than_before(python: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    done = record(recording, "--", python, REUSED)
    assert done.returncode == 0
    assert int(done.stdout) > 0
    document = report(recording)
    assert counts(document, str(REUSED)).items() >= marks(REUSED, python).items()
    (elsewhere,) = counts(document, "elsewhere").values()
    assert elsewhere == {"list": 4}


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_code_that_lies_where_other_code_was(python: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    done = record(recording, "--", python, RECOMPILED)
    addresses, *lines = done.stdout.splitlines()
    assert int(addresses) > 10
    expected: Counter[tuple[str, int, str]] = Counter()
    for count, file, line, kind in map(str.split, lines):
        expected[file, int(line), kind] += int(count)
    found: Counter[tuple[str, int, str]] = Counter()
    for row in report(recording)["survivors"]:
        if str(row["file"]).startswith("file") and row["type"] in {key[2] for key in expected}:
            found[row["file"], row["line"], row["type"]] += row["count"]
    assert found == expected


@pytest.mark.every(6)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_ends_the_program(way: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    status, name = WAYS[way]
    plain = run([PYTHON, ENDS, way])
    done = record(recording, "--", PYTHON, ENDS, way)
    assert (done.returncode, done.stdout) == (plain.returncode, "here\n")
    said = [line for line in done.stderr.splitlines() if not line.startswith("soscope: ")]
    assert said == plain.stderr.splitlines()
    if name:
        assert done.returncode == -signal.Signals[name]
    document = report(recording)
    assert document["exit"] == {"status": status, "signal": name}
    assert document["state"] == "complete"
    assert counts(document, str(ENDS))[KEPT] == {"str": 1234, "list": 1}


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("way", "text"), [("no-exec", "321 float"), ("atexit", "77 float"), ("garbage", "100 list")]
)
def test_objects_of_the_last_moment(way: str, text: str, tmp_path: Path) -> None:
    recording, line = tmp_path / "rec", line_of(text)
    assert record(recording, "--", PYTHON, ENDS, way).returncode == 0
    assert counts(report(recording), str(ENDS))[line] == marks(ENDS, PYTHON)[line]


def test_garbage_is_collected_first_where_that_is_asked_for(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--gc", "--", PYTHON, ENDS, "garbage").returncode == 0
    seen = counts(report(recording), str(ENDS))
    assert seen[KEPT] == {"str": 1234, "list": 1}
    assert seen[line_of("100 list")] == {"list": 1}  # `loop` still names it


@pytest.mark.every(3)
@pytest.mark.parametrize("allocator", ["malloc", "debug", "malloc_debug", "pymalloc_debug"])
def test_other_allocators(allocator: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    done = record(recording, "--", PYTHON, ALIVE, env={"PYTHONMALLOC": allocator})
    assert (done.returncode, done.stdout) == (0, "14088\n")
    wanted, seen = marks(ALIVE, PYTHON), counts(report(recording), str(ALIVE))
    assert {line: seen.get(line, {}) for line in wanted} == wanted


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("python", "tracing"), [*((python, "0") for python in few_pythons()), (PYTHON, "5")]
)
def test_tracemalloc_sees_what_it_always_sees(python: str, tracing: str, tmp_path: Path) -> None:
    recording, env = tmp_path / "rec", {"PYTHONTRACEMALLOC": tracing}
    plain = run([python, TRACING], env=env)
    done = record(recording, "--", python, TRACING, env=env)
    assert (done.returncode, done.stdout, besides_cost(done.stderr)) == (0, plain.stdout, "")
    wanted, seen = marks(TRACING, python), counts(report(recording), str(TRACING))
    for line, kinds in wanted.items():
        assert {kind: seen[line][kind] for kind in kinds} == kinds


def test_children_that_are_followed_have_rows_of_their_own(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "-f", "--", PYTHON, ENDS, "fork").returncode == 0
    document = report(recording)
    first, child = (process["pid"] for process in document["processes"])
    assert document["pid"] == first
    assert [process["state"] for process in document["processes"]] == ["complete"] * 2
    line = line_of("555 float")
    assert counts(document, str(ENDS), first).get(KEPT) == {"str": 1234, "list": 1}
    assert line not in counts(document, str(ENDS), first)
    seen = counts(document, str(ENDS), child)
    assert seen[line]["float"] == 555
    assert seen[KEPT] == {"list": 1}


def test_programs_that_children_execute(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "-f", "--", PYTHON, ENDS, "run").returncode == 0
    document = report(recording)
    assert counts(document, str(ENDS), document["pid"])[KEPT] == {"str": 1234, "list": 1}
    assert counts(document, "<string>")[1]["str"] == 77


def test_a_program_that_a_script_executes_in_its_place(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nexec {PYTHON} -c 'kept = [turn + 0.5 for turn in range(321)]'\n")
    script.chmod(0o755)
    recording = tmp_path / "rec"
    for follow in ([], ["-f"]):
        done = record(recording, *follow, "--", script)
        assert (done.returncode, besides_cost(done.stderr)) == (0, "")
        assert counts(report(recording), "<string>")[1]["float"] == 321


@pytest.mark.every(2)
@pytest.mark.parametrize("way", ["fork", "run"])
def test_children_that_are_not_followed_change_nothing(way: str, tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--", PYTHON, ENDS, way).returncode == 0
    document = report(recording)
    assert len(document["processes"]) == 1
    seen = counts(document, str(ENDS))
    assert seen[KEPT] == {"str": 1234, "list": 1}
    assert line_of("555 float") not in seen


def test_by_type_alone(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--mode", "count", "--", PYTHON, ALIVE).returncode == 0
    document = report(recording)
    assert document["objects"] == "types"
    assert {(row["file"], row["line"]) for row in document["survivors"]} == {(None, 0)}
    by_type = {row["type"]: row["count"] for row in document["survivors"]}
    assert by_type["complex"] == by_type["Slots"] - 100 == 1000


def test_the_report_at_the_end(tmp_path: Path) -> None:
    done = soscope("mem", "run", "--", PYTHON, ENDS, "exit", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (5, "here\n")
    (row,) = [line for line in done.stderr.splitlines() if line.endswith(f"{ENDS}:{KEPT}:str")]
    assert row.split()[0] == "1,234"
    assert not list(tmp_path.iterdir())


def test_lines_of_stats(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--", PYTHON, ENDS, "exit").returncode == 5
    document = report(recording)
    done = soscope("mem", "report", "--format", "stats", recording)
    rows = [
        (row["count"], row["file"] or "?", row["line"], row["type"])
        for row in document["survivors"]
    ]
    rows.sort(key=lambda row: (-row[0], *row[1:]))
    wanted = "".join(f"{count:7d} {file}:{line}:{kind}\n" for count, file, line, kind in rows)
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")
    short = soscope("mem", "report", "--format", "stats", "--limit", "2", recording).stdout
    assert short == "".join(wanted.splitlines(keepends=True)[:2])


def test_programs_without_an_interpreter(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--", "/bin/true").returncode == 0
    document = report(recording)
    assert (document["survivors"], document["runtime"]["name"]) == ([], None)
    assert "no interpreter" in " ".join(document["notes"])


def test_a_recording_of_something_else(tmp_path: Path) -> None:
    trace, text = tmp_path / "trace", tmp_path / "text"
    assert soscope("trace", "-q", "--record", trace, "--", "/bin/true").returncode == 0
    text.write_text("nothing of ours")
    for path, why in (
        (trace, "soscope trace"),
        (text, "not a recording"),
        (tmp_path, "cannot open"),
    ):
        done = soscope("mem", "report", "--json", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr.splitlines()[0]
        assert "Traceback" not in done.stderr


def test_a_recording_that_is_cut(tmp_path: Path) -> None:
    recording = tmp_path / "rec"
    assert record(recording, "--", PYTHON, ENDS, "exit").returncode == 5
    whole = recording.read_bytes()
    recording.write_bytes(whole[:-40])
    done = soscope("mem", "report", "--json", recording)
    document = json.loads(done.stdout)
    assert (done.returncode, document["state"]) == (1, "cut")
    assert 0 < document["cut"]["at_byte"] < len(whole)
    assert counts(document, str(ENDS))[KEPT] == {"str": 1234, "list": 1}


def test_bad_usage() -> None:
    for words, status in (
        (["run"], 125),
        (["run", "--mode", "most", "--", "true"], 125),
        (["report"], 2),
        (["snapshot"], 2),
        (["attach", "-p", "x"], 2),
    ):
        done = soscope("mem", *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert "Traceback" not in done.stderr


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons()[:2])
def test_exit_handlers_that_the_program_runs_or_clears_itself(python: str, tmp_path: Path) -> None:
    text = "import atexit; a = [complex(i) for i in range(321)]; atexit.{}(); b = [1j + len(a)]"
    for way, count in (("_run_exitfuncs", 322), ("_clear", 0)):
        recording = tmp_path / way
        assert record(recording, "--", python, "-c", text.format(way)).returncode == 0
        document = report(recording)
        rows = [row["count"] for row in document["survivors"] if row["type"] == "complex"]
        assert sum(rows) >= count > 0 or not rows
        assert any(map(besides_cost, document["notes"])) == (count == 0)
