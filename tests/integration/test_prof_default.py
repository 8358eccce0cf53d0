# SPDX-License-Identifier: Apache-2.0
"""`soscope prof` without a mode: the program's own functions and its calls, in one table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_prof_sampling import FUNCTIONS, truth_of
from tests.support.processes.run import run, soscope
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run, state

SHARE = re.compile(r"([0-9.]+) of ([0-9.]+) s of processor time are in the table \(([0-9.]+) %\)")
FORBID = [sys.executable, "-m", "tests.support.processes.forbid"]


def assert_whole(said: dict[str, Any], out: str) -> None:
    """Compare what a document says of all that ran with what the program says of itself."""
    whole = sum(truth_of(out).values())
    ran = said["run"]
    assert ran["chosen"]
    assert ran["processor_ns"] >= whole * 0.95
    assert ran["sampled_ns"] == sum(row["weight"] for row in said["samples"]) * said["sample_ns"]
    own = max(ran["processor_ns"] - ran["hooks_ns"], ran["sampled_ns"])
    assert ran["share"] == pytest.approx(ran["sampled_ns"] / own)
    rows = {row["symbol"]: row for row in said["sampled"] if row["image"] == "shares"}
    assert sum(rows[name]["total_ns"] for name in FUNCTIONS) > ran["sampled_ns"] / 2
    calls = {row["symbol"]: row["calls"] for row in said["functions"]}
    assert calls["pthread_create"] == calls["pthread_join"] == 3


@pytest.mark.parametrize("options", [[], ["-f"]])
def test_all_that_ran_is_told(options: list[str]) -> None:
    done = soscope("prof", "run", "-q", *options, "--json", build.program("shares"), "300")
    assert done.returncode == 0
    assert_whole(json.loads(done.stderr), done.stdout)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prof") / "run.sosr"
    done = soscope("prof", "run", "-q", "-o", path, build.program("shares"), "300")
    assert done.returncode == 0
    return path


def test_the_table_begins_with_its_share_of_the_run(recording: Path) -> None:
    program = build.program("shares")
    lines = soscope("prof", "run", program, "300").stderr.splitlines()
    assert SHARE.match(lines[0].removeprefix("soscope: "))
    lines = soscope("prof", "report", recording).stdout.splitlines()
    head = SHARE.match(lines[0])
    assert head
    in_table, whole, share = map(float, head.groups())
    assert share == pytest.approx(100 * in_table / whole, abs=0.5)
    rows = {line.split()[-1]: line.split() for line in lines[4:]}
    assert rows["total"][0] == "100.00"
    assert float(rows["total"][1]) == pytest.approx(in_table, abs=0.001)
    for name in FUNCTIONS:  # sampled, and nobody has counted their calls
        assert float(rows[name][1]) > 0
        assert rows[name][3:6] == ["-", "-", "shares"]
    assert rows["pthread_join"][3] == "3"
    by_image = soscope("prof", "report", "--by", "image", recording).stdout.splitlines()
    assert by_image[0] == lines[0]
    assert {"shares", "libc.so.6"} <= {line.split()[-1] for line in by_image[4:]}


def test_every_reader_takes_it(recording: Path, tmp_path: Path) -> None:
    done = soscope("prof", "report", "--callers", "often_called", recording)
    assert "run" in {line.split()[-1] for line in done.stdout.splitlines() if line}
    tree = soscope("prof", "report", "--tree", recording)
    assert tree.stdout.index("samples:") < tree.stdout.index("calls of which")
    done = soscope("prof", "diff", recording, recording)
    assert done.returncode == 0
    page = tmp_path / "flame.html"
    assert soscope("prof", "flame", "-o", page, recording).returncode == 0
    assert page.read_text().count("often_called")
    folded = tmp_path / "out.folded"
    assert soscope("export", "-o", folded, recording).returncode == 0
    assert "often_called" in folded.read_text()


@pytest.mark.parametrize("forbidden", [["perf_event_open"], ["perf_event_open", "ptrace"]])
def test_where_the_kernel_forbids_it(forbidden: list[str]) -> None:
    words: list[str | Path] = [sys.executable, "-m", "soscope", "prof", "run"]
    for call in forbidden:
        words = [*FORBID, call, *words]
    done = run([*words, build.program("shares"), "200"], timeout=limit())
    assert done.returncode == 0
    assert len(truth_of(done.stdout)) == 6
    lines = done.stderr.splitlines()
    if "ptrace" not in forbidden:
        assert SHARE.match(lines[0].removeprefix("soscope: "))
        assert any(line.split()[-1] == "often_called" for line in lines)
        return
    assert lines[1].startswith("samples of its own code are missing: ")
    assert "threads are traced by another process, or may not be traced" in lines[1]
    assert "CAP_SYS_PTRACE" in lines[1]
    assert any(line.split()[-1] == "pthread_join" for line in lines)


def test_a_running_process() -> None:
    with subprocess.Popen([build.program("shares"), "60000"], stdout=subprocess.DEVNULL) as target:
        try:
            until(has_run(target.pid), "it runs", running=target)
            words = ["prof", "attach", "-p", str(target.pid), "--duration", "0.5s", "--json"]
            done = soscope(*words)
        finally:
            target.kill()
    assert done.returncode == 0
    said = json.loads(done.stdout)
    assert said["run"]["chosen"]
    assert {row["symbol"] for row in said["sampled"]} >= set(FUNCTIONS)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    source, program = build.TARGETS / "shares.c", folder / "shares"
    build.made_in(folder, "gcc", "-O1", "-g", "-static", "-pthread", source, "-o", program)
    return program


def assert_sampled(lines: list[str]) -> None:
    assert SHARE.match(lines[0].removeprefix("soscope: "))
    rows = {line.split()[-1]: line.split() for line in lines if line}
    assert all(rows[name][4:] == ["shares", name] for name in FUNCTIONS)


def test_a_static_program_is_sampled(static: Path) -> None:
    done = soscope("prof", "run", static, "300")
    assert done.returncode == 0
    assert len(truth_of(done.stdout)) == 6
    lines = done.stderr.splitlines()
    assert_sampled(lines)
    assert lines[-1].startswith(f"soscope: {static}: it is statically linked, so its calls go")
    done = soscope("prof", "run", "--boundary", "time", static, "10")
    assert "not profiled: it is statically linked" in done.stderr


def test_a_static_program_that_runs_is_sampled(static: Path) -> None:
    with subprocess.Popen([static, "60000"], stdout=subprocess.DEVNULL) as target:
        try:
            until(has_run(target.pid), "it runs", running=target)
            words = ["prof", "attach", "-p", str(target.pid), "--duration"]
            done = soscope(*words, "0.5s")
            refused = soscope(*words, "0.1s", "--boundary", "count")
            assert state(target.pid) in "RS"
        finally:
            target.kill()
    assert done.returncode == 0
    assert_sampled(done.stdout.splitlines())
    assert refused.returncode == 1
    assert "it is statically linked, so its calls go through no slots" in refused.stderr
