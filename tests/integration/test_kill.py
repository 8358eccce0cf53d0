# SPDX-License-Identifier: Apache-2.0
"""Somebody is killed: what was recorded is whole, and a program outlives soscope."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from soscope.recording.reader import RecordingFile
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run, state
from tests.support.truth import recorded

_BEGINNING = 1 << 16  # bytes of a recording: more than there are before the first call
TRACE = [sys.executable, "-m", "soscope", "trace", "-q"]


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
        pass  # it has ended by itself
    process.communicate()


def child(pid: int) -> int:
    """Return the program that soscope started; its helpers come later."""
    found, *_ = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found)


def kill_the_target(number: int, folder: Path) -> None:
    chance = random.Random(number)
    recording = folder / "run.sosr"
    options = ["--record", str(recording), "-e", "f0,fstr"]
    # a small buffer is full all the time, and the program hardly ahead of what is recorded
    options += ["-f", "--buffer", "1MiB"] if number % 2 else []
    process = start(folder, options, 1_000_000_000)
    try:
        size = _BEGINNING + chance.randrange(1 << 19)
        until(lambda: recording.stat().st_size > size, "calls are recorded", running=process)
        os.kill(child(process.pid), signal.SIGKILL)
        _, notes = process.communicate(timeout=limit())
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


# Ways to look at a program, and how many calls make it last for half a second of its own time. A
# full buffer that nobody empties is looked through at each call: small ones take less of that.
WAYS = {
    "record": (["--buffer", "1MiB", "--record", "{}"], 4_000_000),
    "times": (["-c", "-o", "{}"], 10_000_000),
    "count": (["--count-only", "-o", "{}"], 50_000_000),
    "follow": (["-f", "--buffer", "1MiB", "--record", "{}"], 4_000_000),
}


def kill_soscope(number: int, folder: Path) -> None:
    """Kill soscope while the program runs; a slow machine needs a program that runs longer."""
    assert any(was_killed_in_time(number, folder, times) for times in (1, 4, 16))


def was_killed_in_time(number: int, folder: Path, times: int) -> bool:
    """Kill soscope, and look at its program; return whether that was still running."""
    chance = random.Random(number)
    words, calls = list(WAYS.values())[number % len(WAYS)]
    calls *= times
    output = folder / "run.sosr"
    command = [str(build.program("many_calls")), str(calls)]
    wanted = run(command, env={"SOSC_TRUTH": str(folder / "truth")})
    options = [word.format(output) for word in words]
    process = start(folder, [*options, "-e", "f0,fstr"], calls)
    try:
        target = child(process.pid)
        called = has_run(target, cpu=0.02 + chance.random() * 0.1)
        until(called, "the program makes calls", running=process)
        os.kill(process.pid, signal.SIGKILL)
        is_running = state(target) not in {"", "Z"}
        # its output is open for as long as the program lives
        out, notes = process.communicate(timeout=limit())
    finally:
        stop(process)
    assert "begin\n" + out == wanted.stdout, notes
    # one that nobody waits for stays a zombie
    until(lambda: state(target) in {"", "Z"}, "the program has ended")
    if is_running and "--record" in options:
        with RecordingFile.open(output) as found:
            assert not found.complete
            assert "cut off" in found.why
    return is_running


@pytest.mark.every(3)  # one with a small buffer, and one with the usual
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
