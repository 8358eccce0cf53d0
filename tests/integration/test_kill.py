# SPDX-License-Identifier: Apache-2.0
"""Somebody is killed: what was recorded is whole, and a program outlives soscope."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from soscope.recording.reader import Recording
from tests.support import build, recorded

TRACE = [sys.executable, "-m", "soscope", "trace", "-q"]
LIMIT = 60.0


def start(folder: Path, options: Sequence[str], calls: int) -> subprocess.Popen[str]:
    """Start the program under soscope and return when it has begun to make calls."""
    program = str(build.program("many_calls"))
    process = subprocess.Popen(
        [*TRACE, *options, "--", program, str(calls)],
        env={**os.environ, "SOSC_TRUTH": str(folder / "truth")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n", process.communicate()
    return process


def stop(process: subprocess.Popen[str]) -> None:
    """Leave nothing behind, whatever happened."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


def child(pid: int) -> int:
    """Return the program that soscope started."""
    [found] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found)


def kill_the_target(number: int, folder: Path) -> None:
    chance = random.Random(number)
    recording = folder / "run.sosr"
    options = ["--record", str(recording), "-e", "f0,fstr", *(["-f"] if number % 2 else [])]
    process = start(folder, options, 1_000_000_000)
    try:
        time.sleep(chance.random() * 0.2)
        os.kill(child(process.pid), signal.SIGKILL)
        _, notes = process.communicate(timeout=LIMIT)
        assert process.returncode == -signal.SIGKILL, notes
    finally:
        stop(process)
    found = recorded.by_columns(recording)
    assert not found.problems
    # every sixteenth call of f0 is followed by one of fstr: none lost in between
    f0, fstr = found.by_name["f0"], found.by_name["fstr"]
    assert f0 > 0
    assert (f0 + 15) // 16 - fstr in {0, 1}
    if f0 < 100_000:
        assert not recorded.by_report(recording, -signal.SIGKILL, found).problems


def kill_soscope(number: int, folder: Path) -> None:
    chance = random.Random(number)
    recording, output = folder / "run.sosr", folder / "output"
    ways = [
        ["--record", str(recording)],
        ["-c", "-o", str(output)],
        ["--count-only", "-o", str(output)],
        ["-f", "--record", str(recording)],
    ]
    calls = 3_000_000
    way = ways[number % len(ways)]
    process = start(folder, [*way, "-e", "f0,fstr"], calls)
    try:
        time.sleep(chance.random() * 0.15)
        target = child(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        # its output is open for as long as the program lives
        out, notes = process.communicate(timeout=LIMIT)
    finally:
        stop(process)
    total = 0
    for i in range(calls):
        total = (total * 31 + (i & 0xFFFF) + 1) & 0xFFFFFFFF
        if i % 16 == 0:
            total = (total + ord("a")) & 0xFFFFFFFF
    assert out == f"sum {total}\n", notes
    assert not Path(f"/proc/{target}").exists()
    if str(recording) in way:
        with Recording.open(recording) as found:
            assert found.damage is None
            assert found.complete or found.why


@pytest.mark.parametrize("number", range(6))
def test_a_killed_program_leaves_a_whole_recording(number: int, tmp_path: Path) -> None:
    kill_the_target(number, tmp_path)


@pytest.mark.parametrize("number", range(4))
def test_a_program_outlives_a_killed_soscope(number: int, tmp_path: Path) -> None:
    kill_soscope(number, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(100, 200))
def test_a_killed_program_leaves_a_whole_recording_every_time(number: int, tmp_path: Path) -> None:
    kill_the_target(number, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(100, 150))
def test_a_program_outlives_a_killed_soscope_every_time(number: int, tmp_path: Path) -> None:
    kill_soscope(number, tmp_path)
