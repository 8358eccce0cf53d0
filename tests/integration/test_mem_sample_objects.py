# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run --objects --mode sample`: estimates, and that no end of an object is missed.

Where one byte in one is chosen, each object is: then the report is that of `--mode exact`. Else a
test allows five standard deviations, which chance exceeds once in two million runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.pythons import few_pythons
from tests.support.machines.tools import need
from tests.support.processes.run import besides_cost
from tests.support.targets.survivors import TARGETS, counts, marks, report, soscope

ALIVE, PYTHON = TARGETS / "alive.py", "/usr/bin/python3"
_SURE = 5 / 1.96  # of half widths of the 95 % interval

MANY = """\
kept = []
for turn in range(40_000):
    few = [turn + 0.5]  # of free lists, and dropped
    text = "x" * (turn % 300) + str(turn)
    if turn % 4 == 0:
        kept.append(text)
        kept.append((turn, few))
del few, text
large = [str(turn) * 20_000 for turn in range(10, 60)]
empty = [bytes(9_000) for _ in range(400)]  # of calloc
"""
WANTED = {(4, "str"): 10_000, (7, "tuple"): 10_000, (3, "list"): 10_000, (3, "float"): 10_000}
RUBY = """\
$kept = []
20_000.times do |turn|
  text = "text number #{turn} of them all"
  $kept << text if turn % 4 == 0
end
"""


def sampled(tmp_path: Path, size: str, *words: Path | str) -> dict[str, Any]:
    recording = tmp_path / "rec"
    done = soscope("mem", "run", "--mode", f"sample={size}", "-o", recording, "--", *words)
    assert (done.returncode, besides_cost(done.stderr)) == (0, "")
    document = report(recording)
    assert (document["state"], document["objects"]) == ("complete", "sampled")
    return document


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_when_each_byte_is_chosen_each_object_is(python: str, tmp_path: Path) -> None:
    document = sampled(tmp_path, "1", python, ALIVE)
    wanted, seen = marks(ALIVE, python), counts(document, str(ALIVE))
    assert {line: seen.get(line, {}) for line in wanted} == wanted
    assert {(row["error_count"], row["error_bytes"]) for row in document["survivors"]} == {(0, 0)}


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_estimates_are_as_near_as_they_say(python: str, tmp_path: Path) -> None:
    program = tmp_path / "many.py"
    program.write_text(MANY)
    exact = tmp_path / "exact"
    assert soscope("mem", "run", "-o", exact, "--", python, program).returncode == 0
    truth = {(row["line"], row["type"]): row for row in of_file(report(exact), program)}
    assert {key: truth[key]["count"] for key in WANTED} == WANTED
    document = sampled(tmp_path, "4KiB", python, program)
    assert document["sample_bytes"] == 4096
    rows = {(row["line"], row["type"]): row for row in of_file(document, program)}
    for key in (*WANTED, (9, "str"), (10, "bytes")):
        row = rows[key]
        for number in ("count", "bytes"):
            error = row[f"error_{number}"]
            assert abs(row[number] - truth[key][number]) <= error * _SURE + 1, (key, number, row)
    assert rows[9, "str"]["error_bytes"] < truth[9, "str"]["bytes"] / 50  # each large one is chosen
    assert 0 < rows[10, "bytes"]["error_count"] < 400 / 5  # seven of eight are
    created = [said["totals"]["objects"]["created"] for said in (report(exact), document)]
    assert created[1] == pytest.approx(created[0], rel=0.001)
    assert any("one in 4,096 bytes" in note for note in document["notes"])


def of_file(document: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    return [row for row in document["survivors"] if row["file"] == str(path)]


@pytest.mark.every(2)
@pytest.mark.parametrize("size", ["1", "512"])
def test_objects_of_ruby(size: str, tmp_path: Path) -> None:
    program = tmp_path / "kept.rb"
    program.write_text(RUBY)
    document = sampled(tmp_path, size, need("ruby"), program)
    (row,) = [
        row for row in of_file(document, program) if (row["line"], row["type"]) == (3, "String")
    ]
    # the collector has not run since for some of those that were dropped
    assert row["count"] >= 5_000 - row["error_count"] * _SURE
    assert row["count"] <= 20_000 + row["error_count"] * _SURE
    assert (row["error_count"] == 0) == (size == "1")


def test_children_have_estimates_of_their_own(tmp_path: Path) -> None:
    program, recording = tmp_path / "fork.py", tmp_path / "rec"
    program.write_text(
        "import os\n"
        "shared = [turn + 0.5 for turn in range(30_000)]\n"
        "if os.fork() == 0:\n"
        "    del shared\n"
        "    own = [turn + 0.5 for turn in range(20_000)]\n"
        "else:\n"
        "    os.wait()\n"
    )
    mode = ("--mode", "sample=1KiB", "-f", "-o", recording)
    assert soscope("mem", "run", *mode, "--", PYTHON, program).returncode == 0
    document = report(recording)
    first, child = (process["pid"] for process in document["processes"])
    rows = {
        (row["pid"], row["line"]): row
        for row in of_file(document, program)
        if row["type"] == "float"
    }
    for key, wanted in (((first, 2), 30_000), ((child, 5), 20_000)):
        assert abs(rows[key]["count"] - wanted) <= rows[key]["error_count"] * _SURE
    assert (child, 2) not in rows


def test_a_program_cannot_count_its_own_beside_it(tmp_path: Path) -> None:
    program = tmp_path / "own.py"
    program.write_text(
        "import soscope_mem\n"
        "try:\n"
        "    soscope_mem.start()\n"
        "except soscope_mem.CountingError as error:\n"
        "    raise SystemExit(7 if 'by chance' in str(error) else str(error))\n"
    )
    mode = ("--mode", "sample=512KiB", "-o", tmp_path / "rec")
    done = soscope("mem", "run", *mode, "--", PYTHON, program)
    assert (done.returncode, besides_cost(done.stderr)) == (7, "")


def test_intervals_are_shown_to_people(tmp_path: Path) -> None:
    program = tmp_path / "many.py"
    program.write_text(MANY)
    done = soscope("mem", "run", "--mode", "sample=8KiB", "--", PYTHON, program)
    (line,) = [row for row in done.stderr.splitlines() if row.endswith("many.py:7:tuple")]
    assert line.count(" ± ") == 2
