# SPDX-License-Identifier: Apache-2.0
"""The table of `-c` by self time: what calls take inside of others belongs to them alone.

The truth is arithmetic. The program's outermost calls are of one function, so all that calls take
themselves adds up to what those take in all, tick by tick.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]
Rows = dict[str, dict[str, Any]]
NEAR = 3  # ns: each row is rounded


def rows_of(text: str) -> Rows:
    return {row["symbol"]: row for row in json.loads(text)["rows"]}


def traced(path: Path, select: str, *words: str, options: tuple[str, ...] = ()) -> Rows:
    program = str(build.program("selves"))
    done = run([*SOSCOPE, "-q", "-c", "--json", "-o", str(path / "live"), "-e", select, *options,
                "--", program, *words], timeout=limit(120))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"selves {words[0]}\n"
    return rows_of((path / "live").read_text())


@pytest.mark.every(2)
@pytest.mark.parametrize("threads", [0, 2, 100])
def test_what_calls_take_themselves_is_what_the_outermost_take(
    threads: int, tmp_path: Path
) -> None:
    rows = traced(tmp_path, "fcall@MAIN+f0@MAIN", str(threads), "1")  # fcall is not nested
    assert rows["fcall"]["calls"] == threads + 1
    assert rows["f0"]["calls"] == 2 * (threads + 1)
    assert rows["f0"]["self_ns"] == rows["f0"]["total_ns"]
    own = sum(row["self_ns"] for row in rows.values())
    assert abs(own - rows["fcall"]["total_ns"]) <= NEAR


def test_a_recursion_takes_its_time_once(tmp_path: Path) -> None:
    """With four rounds the last is the longest: fcall in fcall, four deep."""
    rows = traced(tmp_path, "fcall@MAIN", "0", "400")
    assert rows["fcall"]["calls"] == 100 * (1 + 2 + 3 + 4)
    assert rows["fcall"]["self_ns"] < rows["fcall"]["total_ns"]
    assert rows["fcall"]["self_ns"] >= rows["fcall"]["max_ns"]


@pytest.mark.parametrize("threads", [2, 100])
def test_children_and_signals_take_nothing_twice(threads: int, tmp_path: Path) -> None:
    select = "fcall@MAIN+f0@MAIN+f1@MAIN"
    words = (str(threads), "4000", "signals")
    rows = traced(tmp_path, select, *words, options=("-f",))
    assert rows["f0"]["calls"] == 2 * 4000 * (threads + 2)
    assert rows["fcall"]["calls"] == 10000 * (threads + 2)
    for row in rows.values():
        assert 0 <= row["self_ns"] <= row["total_ns"]
    own = sum(row["self_ns"] for row in rows.values())
    assert own <= sum(row["total_ns"] for row in rows.values())
    # nothing else runs inside of it
    handler = rows["f1"]["total_ns"] if "f1" in rows else 0
    assert rows["f0"]["self_ns"] + handler >= rows["f0"]["total_ns"] - NEAR


@pytest.mark.parametrize("select", ["fcall@MAIN+f0@MAIN", "fcall@MAIN"])
def test_a_recording_has_the_same_rule(select: str, tmp_path: Path) -> None:
    program = str(build.program("selves"))
    file = str(tmp_path / "run.sosr")
    done = run([*SOSCOPE, "-q", "-e", select, "--record", file, "--", program, "2", "1"])
    assert done.returncode == 0
    rows = rows_of(run([*REPORT, "-c", "--json", file]).stdout)
    own = sum(row["self_ns"] for row in rows.values())
    assert abs(own - rows["fcall"]["total_ns"]) <= NEAR
    # told one by one
    lines = [json.loads(line) for line in run([*REPORT, "--json", file]).stdout.splitlines()]
    spent = [line for line in lines if line.get("symbol") == "fcall" and line["duration_ns"]]
    assert own == sum(line["duration_ns"] for line in spent)


def test_calls_and_table_of_one_run(tmp_path: Path) -> None:
    """-C: the lines as without it, then the table of what they say."""
    program, output = str(build.program("selves")), tmp_path / "out"
    words = ["-q", "-C", "-T", "-e", "f0@MAIN", "-o", str(output), "--", program, "0", "5"]
    assert run([*SOSCOPE, *words]).returncode == 0
    lines = output.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("% time"))
    calls = [line for line in lines[:at] if "->f0(" in line]
    assert len(calls) == 10
    spent = sum(round(float(line.rpartition("<")[2][:-1]) * 1e9) for line in calls)
    assert lines[-1].split()[1] == f"{spent / 1e9:.9f}"
    assert lines[-1].split()[3] == "10"


def test_a_histogram_counts_each_call(tmp_path: Path) -> None:
    rows = traced(tmp_path, "f0@MAIN", "0", "500", options=("--histogram",))
    row = rows["f0"]
    assert sum(count for _, _, count in row["histogram"]) == row["calls"] == 1000
    assert row["min_ns"] <= row["p50_ns"] <= row["p90_ns"] <= row["p99_ns"] <= row["max_ns"]
    assert not list(tmp_path.glob("*.sosr"))


def test_a_report_takes_the_options_of_the_table(tmp_path: Path) -> None:
    program, file = str(build.program("selves")), str(tmp_path / "run.sosr")
    run([*SOSCOPE, "-q", "-e", "fcall@MAIN+f0@MAIN", "--record", file, "--", program, "0", "4"])
    text = run([*REPORT, "--by", "caller", "-U", "calls,ratio,name", "--sort", "name", file]).stdout
    assert [line.split() for line in text.splitlines()] == [
        ["calls", "calls/fcall", "function"],
        ["---------", "-----------", "--------------------"],
        ["8", "0.80", "f0"],
        ["10", "1.00", "fcall"],
        ["---------", "-----------", "--------------------"],
        ["18", "-", "total"],
    ]


def test_a_recording_without_single_calls_has_no_histogram(tmp_path: Path) -> None:
    program, file = str(build.program("selves")), str(tmp_path / "run.sosr")
    run([*SOSCOPE, "-q", "-c", "-e", "f0@MAIN", "--record", file, "--", program, "0", "4"])
    words = [sys.executable, "-m", "soscope", "report", "--histogram", file]
    done = run(words)
    assert done.returncode == 0
    assert "|" not in done.stdout
    assert "no durations of single calls" in done.stderr
