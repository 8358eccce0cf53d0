# SPDX-License-Identifier: Apache-2.0
"""Recording that calls and signals switch on and off: the program says what lies inside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit, until

REPORT = [sys.executable, "-m", "soscope", "report"]
INSIDE = Counter({"in": 2, "in-thread": 2, "in-nested": 1, "in-child": 1})
ON_OFF = ["--on", "srand", "--off", "rand@MAIN"]


def names(text: str) -> Counter[str]:
    """Return what getenv was called with, of a trace in JSON."""
    events = map(json.loads, text.splitlines())
    calls = [event for event in events if event.get("symbol") == "getenv"]
    assert all(call["result"] is not None for call in calls)
    return Counter(call["args"][0]["value"] for call in calls)


def test_calls_switch_recording_on_and_off(tmp_path: Path) -> None:
    output = tmp_path / "calls"
    words = ["-q", "-f", "--json", "-e", "getenv@MAIN,srand", *ON_OFF, "-o", str(output)]
    done = run([*SOSCOPE, *words, "--", str(build.program("switched"))])
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert names(output.read_text()) == INSIDE
    seen = [json.loads(line) for line in output.read_text().splitlines()]
    assert sum(event.get("symbol") == "srand" for event in seen) == 4
    assert not any(event.get("symbol") == "rand" for event in seen)  # -e does not choose it


def test_a_call_under_way_has_its_end(tmp_path: Path) -> None:
    output = tmp_path / "calls"
    words = ["--json", "-e", "qsort,rand@MAIN", *ON_OFF, "-o", str(output)]
    done = run([*SOSCOPE, *words, "--", str(build.program("switched"))])
    assert "dropped" not in done.stderr
    seen = [json.loads(line) for line in output.read_text().splitlines()]
    ends = {event["symbol"]: event["ended"] for event in seen if event["type"] == "call"}
    assert ends == {"qsort": "return", "rand": "return"}


@pytest.mark.parametrize("mode", ["-c", "--count-only"])
def test_a_table_counts_what_lies_inside(mode: str, tmp_path: Path) -> None:
    output = tmp_path / "table"
    words = ["-q", "-f", mode, "--json", "-e", "getenv@MAIN", *ON_OFF, "-o", str(output)]
    run([*SOSCOPE, *words, "--", str(build.program("switched"))])
    (row,) = json.loads(output.read_text())["rows"]
    assert (row["symbol"], row["calls"]) == ("getenv", INSIDE.total())


def test_a_recording_of_everything_is_switched_alike(tmp_path: Path) -> None:
    record = str(tmp_path / "run.sosr")
    run([*SOSCOPE, "-q", "-f", "--record", record, "--", str(build.program("switched"))])
    done = run([*REPORT, "-q", "--json", "-e", "getenv", *ON_OFF, record])
    assert names(done.stdout) == INSIDE
    table = run([*REPORT, "-q", "-c", "--json", "-e", "getenv", *ON_OFF, record])
    assert [row["calls"] for row in json.loads(table.stdout)["rows"]] == [INSIDE.total()]


def test_off_alone_begins_switched_on_and_what_never_happens_is_said() -> None:
    program = str(build.program("switched"))
    done = run([*SOSCOPE, "-e", "getenv@MAIN", "--off", "srand", "--", program])
    assert done.stderr.count("getenv(") == 1  # "out-before"
    done = run([*SOSCOPE, "-e", "getenv@MAIN", "--on", "nosuch", "--", program])
    assert done.stderr.count("getenv(") == 0
    assert "--on nosuch matches no call that is hooked" in done.stderr


def piped(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def waits_for_usr2(pid: int) -> bool:
    """Return whether the signal would be taken, and kill nobody."""
    text = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line for line in text.splitlines() if line.startswith("SigBlk:"))
    return bool(int(blocked.split()[1], 16) >> (signal.SIGUSR2 - 1) & 1)


@pytest.mark.parametrize("attached", [False, True])
def test_a_signal_to_soscope_switches(tmp_path: Path, *, attached: bool) -> None:
    output = tmp_path / "calls"
    program = [str(build.program("switched")), "wait"]
    words = [*SOSCOPE, "--json", "-e", "getenv@MAIN", "--toggle", "usr2", "-o", str(output)]
    first = program if attached else [*words, "--", *program]
    target = piped(first)
    soscope = piped([*words, "-p", str(target.pid)]) if attached else target

    def say(name: str) -> None:
        assert target.stdin is not None
        assert target.stdout is not None
        target.stdin.write(f"{name}\n".encode())
        target.stdin.flush()
        assert target.stdout.readline() == b"done\n"

    say("out-first")
    until(lambda: waits_for_usr2(soscope.pid), "it would take the signal", running=soscope)
    say("out-second")
    for name, state in (("in", "on"), ("out-third", "off"), ("in-again", "on")):
        os.kill(soscope.pid, signal.SIGUSR2)
        assert soscope.stderr is not None
        assert soscope.stderr.readline() == f"soscope: recording is {state}\n".encode()
        say(name)
    assert target.stdin is not None
    target.stdin.close()
    assert target.wait(limit()) == 0  # and got no signal that would have killed it
    soscope.wait(limit())
    if soscope.stdin is not None:
        soscope.stdin.close()
    for pipe in (target.stdout, target.stderr, soscope.stderr, soscope.stdout):
        assert pipe is not None
        pipe.close()
    assert names(output.read_text()) == Counter({"in": 1, "in-again": 1})


def test_what_switches_leaves_declarations_as_they_are() -> None:
    done = run([*SOSCOPE, "-q", "--on", "getpid", "--", str(build.program("flown")), "0", "kill"])
    assert re.search(r"^kill\(\d+, SIGKILL", done.stderr, re.MULTILINE), done.stderr
