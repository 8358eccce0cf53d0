# SPDX-License-Identifier: Apache-2.0
"""Objects of Pythons that run already: looked at, counted from now on, let alone again."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.machines.pythons import few_pythons
from tests.support.processes import attached
from tests.support.processes.run import besides_cost, kill
from tests.support.targets.covering import sizes
from tests.support.targets.survivors import TARGETS, soscope
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

SERVE = TARGETS / "serve.py"
PYTHON = "/usr/bin/python3"
_LATE = next(
    number
    for number, line in enumerate(SERVE.read_text().splitlines(), 1)
    if line.endswith("# late")
)


@contextlib.contextmanager
def serving(way: str, python: str = PYTHON) -> Iterator[subprocess.Popen[str]]:
    """Run it until it is asked to end, and see that it ends as it always does."""
    words = [python, str(SERVE), way]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate(timeout=limit())
        assert (process.returncode, out, err) == (0, "there 500 124750\n", "")
    finally:
        if process.poll() is None:
            kill(process)


def snapshot(pid: int, *words: str) -> dict[str, Any]:
    done = soscope("mem", "snapshot", "-p", str(pid), "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    assert (document["pid"], document["state"]) == (pid, "complete")
    return document


def kept(document: dict[str, Any]) -> int:
    """Return how many Kept there are that were made before we came."""
    rows = [row for row in document["survivors"] if row["type"] == "Kept"]
    return sum(row["count"] for row in rows if row["file"] is None)


def code_and_slots(pid: int) -> dict[tuple[str, str, int], bytes]:
    """Return what has to be put back; calls that the interpreter makes for us bind lazy slots."""
    sections = attached.snapshot(pid)
    return {key: data for key, data in sections.items() if key[1] != ".got.plt"}


WAYS = [("idle", python) for python in few_pythons()]
WAYS += [(way, python) for way in ("busy", "spin", "threads") for python in few_pythons()]


@pytest.mark.every(6)
@pytest.mark.parametrize(("way", "python"), WAYS)
def test_a_look_changes_nothing(way: str, python: str) -> None:
    with serving(way, python) as process:
        before = code_and_slots(process.pid)
        for _ in range(2):
            assert kept(snapshot(process.pid)) == 500
        if way == "idle":
            assert code_and_slots(process.pid) == before


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_lines_of_what_is_made_since(python: str) -> None:
    with serving("grow", python) as process:
        for _ in range(2):
            assert soscope("mem", "attach", "-q", "-p", str(process.pid)).returncode == 0
            seen = []
            for _ in range(2):
                until(has_switched(process.pid, 5), "it makes some and waits", running=process)
                document = snapshot(process.pid)
                rows = [row for row in document["survivors"] if row["type"] == "Kept"]
                (late,) = [row for row in rows if row["file"] is not None]
                assert (late["file"], late["line"]) == (str(SERVE), _LATE)
                seen.append(late["count"])
                assert kept(document) >= 500
            assert 0 < seen[0] < seen[1]
            again = soscope("mem", "attach", "-p", str(process.pid))
            assert "already" in again.stderr
            done = soscope("detach", "-p", str(process.pid))
            assert (done.returncode, "no longer counts" in done.stdout) == (0, True)
        done = soscope("detach", "-p", str(process.pid))
        assert (done.returncode, "nothing to undo" in done.stdout) == (0, True)


@pytest.mark.parametrize("most", sizes(20_000, 270_000))
def test_more_places_than_there_is_room_for(most: int) -> None:
    """Places stay when their objects go: some of those that stay have come before the end."""
    command = [PYTHON, str(TARGETS / "sources.py"), "270000", str(most), "wait"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "here\n"
        assert soscope("mem", "attach", "-q", "-p", str(process.pid)).returncode == 0
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "there\n"
        document = snapshot(process.pid)
        rows = [row for row in document["survivors"] if row["type"] == "set"]
        lines = [row["count"] for row in rows if str(row["file"]).endswith("sources.py")]
        assert lines == [1] * len(lines)
        without = most - len(lines)
        assert 0 < without < 10_000
        (note,) = filter(besides_cost, document["notes"])
        said, words = note.split(" ", 1)
        assert words == "objects have no line: there was no room for it"
        assert without <= int(said.replace(",", "")) < without + 100  # sets, and what is beside
        print(file=process.stdin, flush=True)
        assert process.wait(limit()) == 0
    finally:
        kill(process)


def test_processes_without_a_python() -> None:
    process = subprocess.Popen(["/bin/sleep", "600"])
    try:
        done = soscope("mem", "attach", "-p", str(process.pid))
        assert (done.returncode, done.stdout) == (1, "")
        assert "interpreter" in done.stderr
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
