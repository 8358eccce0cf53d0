# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: what happened last, as the program itself numbers its calls."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes.attached import wait_for_hooks
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

REPORT = [sys.executable, "-m", "soscope", "report", "-q", "--json"]
MANY = 40_000  # calls: more than the smallest buffer holds
TRACE = [*SOSCOPE, "-e", "getenv@MAIN", "--buffer", "256k"]


def names(text: str) -> list[str]:
    """Return what getenv was called with, of a trace in JSON."""
    events = map(json.loads, text.splitlines())
    return [event["args"][0]["value"] for event in events if event.get("symbol") == "getenv"]


def flown(*arguments: str) -> list[str]:
    return [str(build.program("flown")), *arguments]


def test_what_happened_before_a_kill(tmp_path: Path) -> None:
    output = tmp_path / "calls"
    words = ["--last", "60s", "--on-crash", "--json", "-o", str(output)]
    done = run([*TRACE, *words, "--", *flown(str(MANY), "kill")])
    assert done.returncode == -signal.SIGKILL
    seen = [int(name) for name in names(output.read_text())]
    assert seen == list(range(seen[0], MANY))
    assert seen[0] > 0
    held = (
        r"the last 60s before SIGKILL of process \d+; the buffer held [\d.]+m?s of it \(--buffer\)"
    )
    assert re.search(held, done.stderr)
    assert json.loads(output.read_text().splitlines()[-1])["type"] != "call"  # its end is told


@pytest.mark.parametrize("child", ["vfork", "fork"])
def test_children_come_and_go(tmp_path: Path, child: str) -> None:
    output = tmp_path / "calls"
    words = ["--last", "60s", "--on-crash", "--json", "-o", str(output)]
    if child == "fork":
        words.append("-f")
    done = run([*TRACE, *words, "--", *flown("100", "kill", child)])
    assert done.returncode == -signal.SIGKILL
    seen = [int(name) for name in names(output.read_text())]
    assert seen == list(range(seen[0], 100))
    assert seen[0] > 0  # each child takes room
    assert "the buffer held" in done.stderr


def test_where_nothing_can_be_written_nothing_begins(tmp_path: Path) -> None:
    for record in (tmp_path / "missing" / "run.sosr", tmp_path):
        done = run([*TRACE, "--last", "60s", "--record", str(record), "--", *flown("3", "end")])
        assert (done.returncode, done.stdout) == (125, ""), done.stderr
        assert f"cannot create recording '{record}'" in done.stderr


def test_without_a_crash_nothing_is_written(tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    words = ["--last", "60s", "--on-crash", "--record", str(record)]
    done = run([*TRACE, *words, "--", *flown("3", "end")])
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert "nothing was written: neither --on-crash nor SIGUSR1 happened" in done.stderr
    assert not record.exists()


@pytest.mark.parametrize("options", [[], ["-f"]])
def test_without_a_reason_it_is_the_end_that_counts(options: list[str]) -> None:
    done = run([*TRACE, *options, "--last", "60s", "--", *flown("3", "end")])
    lines = [line for line in done.stderr.splitlines() if not line.startswith("soscope")]
    assert lines[0] == "--- the last 60s before the end ---"
    assert [line.count("getenv") for line in lines] == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_what_happened_before_a_call(tmp_path: Path, follow: list[str]) -> None:
    record = tmp_path / "run.sosr"
    words = [*follow, "--last", "60s", "--on-symbol", "srand", "--record", str(record)]
    done = run([*TRACE, *words, "--", *flown("5", "symbol")])
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert names(run([*REPORT, str(record)]).stdout) == ["0", "1", "2", "3", "4"]
    assert not Path(f"{record}.2").exists()  # the second call came at once


@pytest.mark.long
@pytest.mark.every(2)
@pytest.mark.parametrize("attached", [False, True])
def test_a_signal_while_threads_go_on(tmp_path: Path, *, attached: bool) -> None:
    record = tmp_path / "run.sosr"
    words = [*TRACE, "--last", "60s", "--on-crash", "--record", str(record)]
    program = flown("0", "forever")
    command = program if attached else [*words, "--", *program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as target:
        assert target.stdout is not None
        assert target.stdin is not None
        soscope = target
        if attached:
            soscope = subprocess.Popen([*words, "-p", str(target.pid)])
        assert target.stdout.readline() == b"ready\n"
        if attached:
            until(partial(has_signal_blocked, soscope.pid), "it takes signals", running=soscope)
            wait_for_hooks(soscope)
            until(has_run(target.pid), "it makes calls that are hooked", running=soscope)
        files = [record, Path(f"{record}.2")]
        for file in files:
            until(partial(has_signal_blocked, soscope.pid), "it takes signals", running=soscope)
            os.kill(soscope.pid, signal.SIGUSR1)
            until(partial(has_why, file), "what happened is written", running=soscope)
        assert target.communicate(timeout=limit())[0] == b"end\n"
        if attached:
            soscope.wait(limit())
    for file in files:
        text = run([*REPORT, str(file)]).stdout
        seen = [name.split(":") for name in names(text)]
        assert seen
        missing = 0
        for thread in "12":
            numbers = [int(number) for which, number in seen if which == thread]
            assert numbers == sorted(set(numbers))
            # One may have had no processor for a while. Its old calls are overwritten later than
            # newer ones.
            missing += numbers[-1] - numbers[0] + 1 - len(numbers) if numbers else 0
        told = [event["count"] for event in map(json.loads, text.splitlines()) if "count" in event]
        assert missing <= sum(told)


def test_a_trace_that_is_ended_shows_what_happened_before(tmp_path: Path) -> None:
    output = tmp_path / "calls"
    pipe = subprocess.PIPE
    with subprocess.Popen(flown("0", "forever"), stdin=pipe, stdout=pipe) as target:
        assert target.stdout is not None
        assert target.stdout.readline() == b"ready\n"
        words = ["--last", "60s", "-o", str(output), "-p", str(target.pid)]
        soscope = subprocess.Popen([*TRACE, *words])
        until(partial(has_signal_blocked, soscope.pid), "it takes signals", running=soscope)

        def is_shown() -> bool:
            os.kill(soscope.pid, signal.SIGUSR1)  # the first may come before the first call
            return output.exists() and "getenv" in output.read_text()

        until(is_shown, "calls are shown", running=soscope)
        os.kill(soscope.pid, signal.SIGTERM)
        assert soscope.wait(limit()) == 0
        target.communicate(timeout=limit())
    _, _, last = output.read_text().partition("before the end ---")
    assert "getenv" in last


def has_why(file: Path) -> bool:
    """Return whether a recording's end is written."""
    if not file.exists():
        return False
    with file.open("rb") as data:
        data.seek(max(file.stat().st_size - 4096, 0))
        return b'"why":' in data.read()


def has_signal_blocked(pid: int) -> bool:
    """Return whether a signal would be taken, and kill nobody."""
    text = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line for line in text.splitlines() if line.startswith("SigBlk:"))
    return bool(int(blocked.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
