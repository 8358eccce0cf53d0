# SPDX-License-Identifier: Apache-2.0
"""`-ff -o FILE`: each process has a file of its own, and in it what that process called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.processes.launching import environment
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.time.patience import limit

WORDS = [sys.executable, "-m", "soscope", "--debug", "trace"]
# on_demand: the first process makes 5 calls, its children 7 and 9
ASKED, MADE = "5\n-7\n-9\n", [5, 7, 9]


def trace(*words: str | Path, text: str = ASKED) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WORDS, *map(str, words)],
        env=environment(),
        input=text,
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
    )


def followed(folder: Path, *words: str) -> dict[int, str]:
    """Trace the program; return the files by the process that names them."""
    target = str(build.program("on_demand"))
    done = trace("-ff", "-o", folder / "calls", "-e", "getppid@MAIN", *words, "--", target)
    assert (done.returncode, done.stdout) == (7, "ready\n5\n12\n21\n"), done.stderr
    assert is_whole(done.stderr)
    assert {one.suffixes[0] for one in folder.iterdir()} == {one.suffix for one in folder.iterdir()}
    return {int(one.suffix[1:]): one.read_text() for one in folder.iterdir()}


def test_each_process_has_a_file(tmp_path: Path) -> None:
    files = followed(tmp_path)
    assert sorted(text.count("getppid()") for text in files.values()) == MADE
    for text in files.values():
        assert "[pid" not in text
        assert text.count("+++ exited (status ") == 1
    first = next(pid for pid, text in files.items() if "status 7" in text)
    for pid, text in files.items():  # a child's parent is the first process
        if pid != first:
            assert f"= {first}\n" in text


def test_each_process_has_its_objects(tmp_path: Path) -> None:
    files = followed(tmp_path, "--json")
    found = []
    for pid, text in files.items():
        events = [json.loads(line) for line in text.splitlines()]
        assert {event["pid"] for event in events} == {pid}
        found.append(sum(event["type"] == "call" for event in events))
    assert sorted(found) == MADE


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-ff"], "-o FILE is missing"),
        (["-ff", "-o", "-"], "-o FILE is missing"),
        (["-ff", "-c", "-o", "x"], "a table covers all processes"),
        (["-ff", "--count-only", "-o", "x"], "a table covers all processes"),
        (["-ff", "-o", "/proc/none/x"], "cannot write '/proc/none/x.PID'"),
    ],
)
def test_what_cannot_be_separate_is_refused(words: Sequence[str], said: str) -> None:
    done = trace(*words, "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert said in done.stderr


def test_many_processes_need_few_descriptors(tmp_path: Path) -> None:
    target = str(build.program("on_demand"))
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    command = [*limited, *WORDS, "-ff", "-o", str(tmp_path / "calls"), "-e", "getppid@MAIN", target]
    done = subprocess.run(
        command,
        env=environment(),
        input="-1\n" * 100,
        capture_output=True,
        text=True,
        timeout=limit(120),
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert len(os.listdir(tmp_path)) == 101
    texts = [one.read_text() for one in tmp_path.iterdir()]
    assert sum(text.count("getppid()") for text in texts) == 100
