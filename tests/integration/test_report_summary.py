# SPDX-License-Identifier: Apache-2.0
"""`report -c`: what `trace -c` adds up live, and what each call of a recording says of itself."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soscope.recording import gather
from soscope.recording.columns import batches, columns
from soscope.recording.reader import RecordingFile
from soscope.recording.reduce import stats_of
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]


def recorded(path: Path, *command: str) -> Path:
    file = path / "run.sosr"
    words = ["-q", "-f", "--from", "all", "--record", str(file), "--buffer", "64m", "--"]
    done = run([*SOSCOPE, *words, *command])
    assert done.returncode == 0, done.stderr
    return file


def table(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run([*REPORT, "-c", "--json", str(file)]).stdout)
    return found


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "-I", "-S", "-c", "import json, os; os.path.exists('/nope')"),
        ("perl", "-e", 'system("true"); eval { die 1 }; open(F, "/nope"); print 3'),
        ("sqlite3", ":memory:", "select count(*) from sqlite_master"),
    ],
    ids=["python", "perl", "sqlite3"],
)  # fmt: skip
def test_the_table_is_the_sum_of_the_calls(command: tuple[str, ...], tmp_path: Path) -> None:
    program, *words = command
    file = tmp_path / "run.sosr"
    options = ["-q", "-f", "--from", "all", "--record", str(file), "--"]
    run([*SOSCOPE, *options, need(program), *words])  # whatever its status is
    calls: Counter[tuple[str, str, str]] = Counter()
    errors: Counter[tuple[str, str, str]] = Counter()
    times: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for line in run([*REPORT, "--json", str(file)]).stdout.splitlines():
        event = json.loads(line)
        if event["type"] not in ("call", "return"):
            continue
        key = event["caller"] or "", event["callee"] or "", event["symbol"]
        calls[key] += event["type"] == "call"
        # in a child, the return from what its parent called is the parent's
        if event["type"] == "return" and event["call_pid"] != event["pid"]:
            continue
        if event["duration_ns"] is not None:
            times[key].append(event["duration_ns"])
        errors[key] += bool(event.get("failed"))
    assert len(calls) > 50
    rows: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for row in table(file)["rows"]:
        sums = rows[row["caller"], row["callee"], row["symbol"]]
        sums[0] += row["calls"]
        sums[1] += row["errors"] or 0
        sums[2] += row["total_ns"] or 0
        sums[3] = min(sums[3] or sys.maxsize, row["min_ns"] or 0)
        sums[4] = max(sums[4], row["max_ns"] or 0)
    assert {key: row[0] for key, row in rows.items()} == calls
    assert {key: row[1] for key, row in rows.items() if row[1]} == {
        key: count for key, count in errors.items() if count
    }
    for key, row in rows.items():
        assert row[2] == sum(times[key]), key
        assert row[4] == max(times[key], default=0), key


@pytest.mark.parametrize("target", ["errno", "returns"])
def test_the_table_of_a_recording_is_that_of_the_trace(target: str, tmp_path: Path) -> None:
    program = str(build.program(target))
    words = ["-q", "-f", "--json", "--from", "all", "-c", "-o", str(tmp_path / "live"), "--"]
    run([*SOSCOPE, *words, program])
    live = json.loads((tmp_path / "live").read_text())
    found = table(recorded(tmp_path, program))
    assert found["schema"] == live["schema"]
    told = ("calls", "dropped", "complete")  # and waits, which are of one run
    assert [found["totals"][name] for name in told] == [live["totals"][name] for name in told]

    def rows(document: dict[str, Any]) -> dict[tuple[str, str, str], tuple[int, int | None]]:
        return {
            (row["caller"], row["callee"], row["symbol"]): (row["calls"], row["errors"])
            for row in document["rows"]
        }

    assert rows(found) == rows(live)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "words", ["threads", "fork", "contexts", "coroutines", "setjmp", "tail 20000"]
)
@pytest.mark.parametrize("size", [300, 5000])
def test_windows_are_the_whole(
    words: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "HOLD", 1)
    target, *arguments = words.split()
    file = recorded(tmp_path, str(build.program(target)), *arguments)
    with RecordingFile.open(file) as recording:
        whole = columns(recording, None)
        parts = list(batches(recording, size))
        assert len(parts) > 1 or size > 300
        for name in whole.__slots__:
            found = np.concatenate([getattr(part, name) for part in parts])
            assert np.array_equal(found, getattr(whole, name)), name
        assert stats_of(recording, size) == stats_of(recording, None)


def test_the_table_for_people(tmp_path: Path) -> None:
    file = recorded(tmp_path, str(build.program("errno")))
    lines = run([*REPORT, "-c", str(file)]).stdout.splitlines()
    assert lines[0].split() == ["%", "time", "seconds", "usecs/call", "calls", "errors", "total",
                                "min", "max", "caller", "callee", "function"]  # fmt: skip
    assert lines[-1].split()[-1] == "total"
