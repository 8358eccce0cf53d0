# SPDX-License-Identifier: Apache-2.0
"""Times are those of the target's own clocks, and the same live and in a report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soscope.recording.reader import RecordingFile
from soscope.wire import layout
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report"]
NEAR = 1_000_000  # ns: far above the error of a clock pair, far below a wrong rate
RUNS = {"long": ["4", "300", "2000"], "short": ["2", "3", "50"], "alone": ["1", "8", "70000"]}


def both(path: Path, *words: str) -> tuple[str, str, str]:
    """Return what was shown live, what a report shows, and what the command printed."""
    live, recording = path / "live", path / "run.sosr"
    done = run([*SOSCOPE, "-q", "--json", "-o", str(live), "--record", str(recording), *words])
    assert done.returncode == 0
    return live.read_text(), run([*REPORT, "-q", "--json", str(recording)]).stdout, done.stdout


@pytest.mark.every(2)
@pytest.mark.parametrize("words", RUNS.values(), ids=RUNS)
def test_a_report_has_the_times_that_were_shown_live(words: list[str], tmp_path: Path) -> None:
    live, report, printed = both(tmp_path, "--", str(build.program("clocks")), *words)
    assert live == report
    calls = [json.loads(line) for line in live.splitlines()]
    spans = [[int(word) for word in line.split()] for line in printed.splitlines()]
    assert len(spans) == int(words[0]) * int(words[1])
    for thread in {span[0] for span in spans}:
        mine = [one for one in calls if one.get("symbol") == "usleep" and one["tid"] == thread]
        true = [span[1:] for span in spans if span[0] == thread]
        for call, (begin, end, raw_begin, raw_end) in zip(mine, true, strict=True):
            assert begin - NEAR <= call["time_ns"] <= end + NEAR
            assert call["time_ns"] + call["duration_ns"] <= end + NEAR
            assert call["duration_ns"] <= raw_end - raw_begin + 1000
            assert call["duration_ns"] >= int(words[2]) * 999


def test_a_report_of_a_table_has_the_times_that_were_shown(tmp_path: Path) -> None:
    program = str(build.program("clocks"))
    live, report, _ = both(tmp_path, "-c", "--", program, "2", "50", "300")
    assert live == report
    (row,) = [one for one in json.loads(live)["rows"] if one["symbol"] == "usleep"]
    assert row["calls"] == 100
    assert row["min_ns"] >= 299_000


def test_what_a_thread_waits_while_it_asks_for_its_waits_is_not_taken_from_its_sleep(
    tmp_path: Path,
) -> None:
    """Beside busy loops a thread loses its processor in the middle of the question, too."""
    program, loop = str(build.program("clocks")), "while true; do :; done"
    busy = [subprocess.Popen(["timeout", "60", "/bin/sh", "-c", loop]) for _ in range(6)]
    try:
        for _ in range(4):
            live, _, _ = both(tmp_path, "-c", "-e", "usleep", "--", program, "6", "100", "300")
            (row,) = json.loads(live)["rows"]
            assert row["calls"] == 600
            assert row["min_ns"] >= 299_000
    finally:
        for each in busy:
            each.terminate()
            each.wait()


def test_a_report_of_several_programs_has_the_same_times(tmp_path: Path) -> None:
    program = str(build.program("clocks"))
    script = f"{program} 2 20 500; {program} 1 100 1000 & {program} 3 40 500; wait"
    live, report, _ = both(tmp_path, "-f", "--", "/bin/sh", "-c", script)
    assert live == report


def test_the_cost_of_a_hooked_call_is_measured_where_it_is_made(tmp_path: Path) -> None:
    """The agent calls an empty function, and takes it for nothing that the program has done."""
    both(tmp_path, "-c", "--", str(build.program("clocks")), "1", "1", "1000")
    rows = {row["symbol"]: row for row in json.loads((tmp_path / "live").read_text())["rows"]}
    with RecordingFile.open(tmp_path / "run.sosr") as recording:
        facts: dict[str, Any] = recording.programs[0].facts
        each = facts["cost_outer"] * recording.clock.rate
    assert rows["usleep"]["doubt_ns"] == round(rows["usleep"]["calls"] * each) > 0
    assert facts["cost_inner"] > 0
    assert facts["cost_outer"] > 0
    assert not facts["agent_flags"] & layout.AGENT_SEALED


def test_the_cost_of_a_record_is_that_of_nothing_that_was_recorded(tmp_path: Path) -> None:
    """The records of it are in no chunk that anybody reads, wherever the agent lies."""
    program, path = str(build.program("clocks")), str(tmp_path / "run.sosr")
    for _ in range(4):  # a chunk ends at one of four pages
        done = run([*SOSCOPE, "-v", "--record", path, "--", program, "1", "1", "1000"])
        assert "soscope: tracing cost the program at least" in done.stderr
        with RecordingFile.open(Path(path)) as recording:
            assert recording.programs[0].fact("cost_outer") > 0
        found = run([*REPORT, "--json", path]).stdout.splitlines()
        assert not [line for line in found if '"symbol":"?"' in line]
