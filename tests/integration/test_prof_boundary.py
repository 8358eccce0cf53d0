# SPDX-License-Identifier: Apache-2.0
"""soscope prof --boundary: calls from one image to another, as the program itself counts them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import attached, reported
from tests.support.processes.launching import environment
from tests.support.processes.run import besides_cost, soscope
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run


def words(*options: str) -> list[str]:
    return [sys.executable, "-m", "soscope", "--debug", "prof", *options]


def calls_of(document: dict[str, Any], image: str = "libleaf.so") -> dict[str, int]:
    return {row["symbol"]: row["calls"] for row in document["functions"] if row["image"] == image}


@pytest.mark.parametrize("way", ["count", "time"])
def test_calls_into_a_library(way: str) -> None:
    command = [str(build.program("threads")), "8", "20000"]
    done = soscope("prof", "run", "-q", "--boundary", way, "-l", "libleaf*", "--json", *command)
    assert (done.returncode, done.stdout) == (0, "threads 8 20000\n")
    said = json.loads(done.stderr[done.stderr.index("{") :])  # behind what the program says
    assert said["schema"] == "soscope/prof-report/1"
    assert (said["exit"], said["state"]) == ({"status": 0, "signal": None}, "complete")
    assert (said["boundary"], said["mode"]) == (way, None)
    assert calls_of(said) == {"f0": 160_000, "f1": 160_000}
    assert said["totals"]["calls"] == 320_000
    arcs = {
        (arc["caller_image"], arc["caller"], arc["callee"]): arc["calls"] for arc in said["arcs"]
    }
    assert arcs == {("threads", "run", "f0"): 160_000, ("threads", "run", "f1"): 160_000}
    assert calls_of(said, "threads") == {"run": None}  # who calls is named, too
    for row in said["functions"]:
        if row["image"] == "threads":
            continue
        assert (row["total_ns"] is None) == (way == "count")
        assert row["total_ns"] is None or row["total_ns"] >= row["self_ns"] >= 0


@pytest.mark.parametrize("way", ["count", "time"])
def test_tail_calls_are_those_of_the_function_that_jumps(way: str) -> None:
    command = [str(build.program("tail")), "100"]
    done = soscope(
        "prof", "run", "-q", "--boundary", way, "-l", "libtail*,tail", "--json", *command
    )
    assert done.returncode == 0
    said = json.loads(done.stderr[done.stderr.index("{") :])
    calls: dict[tuple[str, str], int] = {}
    for arc in said["arcs"]:
        key = arc["caller"], arc["callee"]
        calls[key] = calls.get(key, 0) + arc["calls"]
    assert sum(calls[key] for key in calls if key[1] == "gpong") == 91
    assert sum(calls[key] for key in calls if key[1] == "gping") == 90
    if way == "time":  # a count has the return address alone: that of the call around
        assert calls["gpong", "gping"] + calls["", "gping"] == 90
        assert calls["gpong", "gping"] >= 40
        assert calls["main", "gpong"] == 21


def test_a_tail_call_of_instrumented_code_is_its_function_s() -> None:
    """Two trampolines lie behind one another: the hook's, and that of the call it is in."""
    command = reported.program("handed", "pg", "gcc", "-O2", "-Wl,--export-dynamic")
    both = ("--mode", "time", "--boundary", "time")
    done = soscope("prof", "run", "-q", *both, "-l", "libhanded*,handed", "--json", *command)
    assert (done.returncode, done.stdout) == (0, "handed 10100\n")
    said = json.loads(done.stderr[done.stderr.index("{") :])
    arcs = [(arc["caller"], arc["calls"]) for arc in said["arcs"] if arc["callee"] == "kept"]
    assert arcs == [("handed", 100)]


def test_a_program_that_forbids_the_clock_is_counted() -> None:
    command = [str(build.program("tsc"))]
    for how, notes in (("count", 0), ("time", 1)):
        done = soscope("prof", "run", "-q", "--boundary", how, "-l", "libleaf*", "--json", *command)
        assert done.returncode == 0
        said = json.loads(done.stderr[done.stderr.index("{") :])
        assert calls_of(said)["f0"] == 1200
        assert sum("forbids itself the clock" in note for note in said["notes"]) == notes


def test_versions_of_a_function_are_functions() -> None:
    command = [str(build.program("versions"))]
    done = soscope("prof", "run", "-q", "--boundary", "count", "--json", *command)
    said = json.loads(done.stderr[done.stderr.index("{") :])
    rows = [row for row in said["functions"] if row["symbol"] == "fver"]
    assert sorted(row["calls"] for row in rows) == [30, 70]


def test_the_default_times_all_libraries(tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    done = soscope("prof", "run", "-o", record, "/bin/sh", "-c", "echo one; exit 3")
    assert (done.returncode, done.stdout) == (3, "one\n")
    said = f"soscope: recording: {record}; show it: soscope prof report {record}\n"
    assert besides_cost(done.stderr) == said


def test_a_running_process_is_left_as_it_was() -> None:
    with attached.running([build.program("attached"), "4"]) as process:
        before = attached.snapshot(process.pid)
        options = ["-p", str(process.pid), "--boundary", "count", "--json"]
        profiler = subprocess.Popen(
            words("attach", *options),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509  as `&`
        )
        attached.assert_it_profiles(profiler, process.pid)
        until(has_run(process.pid), "it calls", running=process)
        done = soscope("detach", "-p", str(process.pid))
        assert done.returncode == 0
        left = f"process {process.pid}: soscope {profiler.pid} has let go of it"
        assert (done.stdout.splitlines()[0], done.stderr) == (left, "")
        out, _ = profiler.communicate(timeout=limit())
        assert profiler.returncode == 0
        assert calls_of(json.loads(out), "libc.so.6")["malloc"] > 0
        assert attached.differences(before, process.pid) == []
        done = soscope("detach", "-p", str(process.pid))
        assert (done.returncode, done.stderr) == (0, "")
        assert "nothing to undo" in done.stdout
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_a_command_is_profiled_to_its_end() -> None:
    profiler = subprocess.Popen(
        words("run", "-q", "--boundary", "count", "/bin/sh", "-c", "echo $$; read x; exit 5"),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert profiler.stdout is not None
    pid = profiler.stdout.readline().strip()
    done = soscope("detach", "-p", pid)
    profiler.communicate("\n", timeout=limit())
    assert (done.returncode, profiler.returncode) == (1, 5)
    said = f"soscope {profiler.pid} has started process {pid}, and observes it to its end"
    assert said in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "soscope prof needs a verb; soscope prof --help lists them"),
        (["nope"], 2, "'prof nope' is not a verb of soscope; did you mean"),
        (["run"], 125, "no command to run; usage: soscope prof run"),
        (["run", "--nope", "true"], 125, "there is no --nope; did you mean --mode?"),
        (["run", "/etc/passwd"], 126, "cannot run '/etc/passwd': permission denied"),
        (["run", "no-such-command"], 127, "cannot run 'no-such-command': not found"),
        (["run", "--boundary", "size", "true"], 125, "--boundary"),
        (["run", "--mode", "sample=0", "true"], 125, "--mode: sample=0 is not between 1 and"),
        (["run", "--json", "-o", "x", "true"], 125, "with -o nothing is shown"),
        (["attach"], 2, "no process: -p PID is missing; usage: soscope prof attach"),
        (["report"], 2, "the following arguments are required: REC; soscope prof report"),
        (["report", "/nonexistent"], 1, "cannot open '/nonexistent'"),
        (["report", "/etc/passwd"], 1, "'/etc/passwd' is a text, not a recording of soscope"),
        (["diff", "one"], 2, "the following arguments are required"),
        (["check", "/etc/passwd"], 1, "not an ELF file"),
        (["attach", "-p", "4194305"], 4, "no process 4194305"),
    ],
)
def test_wrong_input(options: list[str], status: int, message: str, tmp_path: Path) -> None:
    done = soscope("prof", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("soscope: error: ")
    assert message in said
