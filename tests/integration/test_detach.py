# SPDX-License-Identifier: Apache-2.0
"""A soscope that is killed leaves a process that goes on, and that can be made what it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import attached, killed
from tests.support.processes.launching import environment
from tests.support.schemas.checked import DETACH, wrong_members
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

WAYS = {
    "times": ["-c", "--from", "all"],
    "count": ["--count-only", "--from", "all"],
    "record": ["--from", "all", "--record", "{}"],
}


def options(folder: Path, way: str) -> list[str]:
    """Return the words of a way to look; what is recorded goes to a file of the folder."""
    return [word.format(folder / "output") for word in WAYS[way]]


def start(pid: int, folder: Path, way: str) -> subprocess.Popen[str]:
    """Begin to trace a process; return when the agent is in."""
    tracer = attached.start(pid, *options(folder, way))
    attached.wait_until("memfd:soscope", pid, running=tracer)
    return tracer


MOMENTS = ["the agent is in", "it is hooked", "it has made calls"]


def kill_and_clean_up(pid: int, folder: Path, way: str, moment: str) -> None:
    before = attached.snapshot(pid)
    tracer = start(pid, folder, way)
    if moment != MOMENTS[0]:
        attached.wait_for_hooks(tracer, *options(folder, way))
    if moment == MOMENTS[2]:
        until(has_run(pid), moment, running=tracer)
    tracer.kill()
    tracer.communicate(timeout=limit())
    done = attached.detach(pid)
    assert done.returncode == 0, done.stderr
    assert attached.differences(before, pid) == []


@pytest.mark.every(3)
@pytest.mark.parametrize("way", WAYS)
def test_a_killed_soscope_is_cleaned_up_after(way: str, tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "4"]) as process:
        for moment in MOMENTS:
            kill_and_clean_up(process.pid, tmp_path, way, moment)
            assert process.poll() is None
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_the_process_goes_on_without_soscope(tmp_path: Path) -> None:
    """Its threads wait a while for somebody who reads what they record, and then no more."""
    with attached.running([build.program("attached"), "4"]) as process:
        words = [*options(tmp_path, "record"), "--buffer", "256k", "--when-full", "block"]
        tracer = attached.begin(process.pid, *words)
        tracer.kill()
        tracer.communicate(timeout=limit())
        until(has_run(process.pid, cpu=0.3), "it makes more calls than the buffer holds")
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_the_next_trace_takes_over(tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        before = attached.snapshot(process.pid)
        tracer = start(process.pid, tmp_path, "times")
        attached.wait_for_hooks(tracer)
        tracer.kill()
        tracer.communicate(timeout=limit())
        done = attached.observe(process.pid, "-c", until=has_run(process.pid))
        assert done.returncode == 0, done.stderr
        assert "malloc" in done.stderr
        assert attached.differences(before, process.pid) == []
        # one agent, used twice
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        spans = [line for line in maps.splitlines() if "memfd:soscope" in line and "r-xp" in line]
        assert len({line.split()[4] for line in spans}) == 1
        assert attached.finish(process)[0] == 7


def test_a_living_owner_is_named_and_ends_at_a_detach(tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "1"]) as process:
        tracer = start(process.pid, tmp_path, "count")
        attached.wait_for_hooks(tracer)
        done = attached.trace(process.pid, "-c")
        assert done.returncode == 1
        assert f"soscope {tracer.pid} traces it" in done.stderr
        done = attached.detach(process.pid, "--json")
        assert (done.returncode, json.loads(done.stdout)["stopped"]) == (0, tracer.pid)
        _, notes = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, notes
        assert attached.finish(process)[0] == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_trace_and_leave_nothing(number: int, tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        before = attached.snapshot(process.pid)
        tracer = start(process.pid, tmp_path, "times")
        attached.wait_for_hooks(tracer)
        until(has_run(process.pid), "it makes calls", running=tracer)
        tracer.send_signal(number)
        _, text = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, text
        assert "malloc" in text  # what was counted is told
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process)[0] == 7


def test_nothing_to_undo_is_said() -> None:
    with attached.running([build.program("attached"), "1"]) as process:
        done = attached.detach(process.pid)
        assert (done.returncode, done.stdout) == (0, f"process {process.pid}: nothing to undo\n")
        attached.trace(process.pid, "-c", "--duration", "20ms")
        done = attached.detach(process.pid)
        assert done.returncode == 0
        assert "does nothing" in done.stdout
        assert attached.detach(process.pid, "-q").stdout == ""


def test_the_document(tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "1"]) as process:
        tracer = start(process.pid, tmp_path, "count")
        attached.wait_for_hooks(tracer)
        tracer.kill()
        tracer.communicate(timeout=limit())
        found = json.loads(attached.detach(process.pid, "--json").stdout)
        assert wrong_members(found, DETACH) == []
        assert found["pid"] == process.pid
        [agent] = found["agents"]
        assert agent["restored"] > 3
        assert (agent["left"], agent["kept"]) == ([], 0)


def test_a_launched_program_is_cleaned_up_after() -> None:
    """Its soscope was killed: the hooks of its start are taken out as well."""
    words = attached.words(0, "--count-only", "--from", "all")[:-2]
    tracer = subprocess.Popen(
        [*words, "--", str(build.program("attached")), "2"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "ready\n"
        child = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()[0]
        tracer.kill()
        tracer.wait(limit())
        done = attached.detach(int(child))
        assert done.returncode == 0, done.stderr
        assert "restored" in done.stdout
        assert tracer.communicate("end\n", timeout=limit())[0] == "wrong 0\n"
    finally:
        try:
            os.killpg(tracer.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself


def test_a_process_that_is_not_there() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    done = attached.detach(process.pid)
    assert done.returncode == 4
    assert f"no process {process.pid}" in done.stderr


# parts of the trace, by their number; in `make soak` all one after another
PARTS = [
    pytest.param((1, 40, 80), id="three"),
    pytest.param((1, 20, 40, 60, 80), id="five", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("goes_out", [False, True], ids=["in", "out"])
@pytest.mark.parametrize("parts", PARTS)
def test_killed_at_any_moment(parts: tuple[int, ...], goes_out: bool, tmp_path: Path) -> None:
    """Also while the process stands still, and while the agent goes in or out."""
    log = tmp_path / "log"
    with attached.running([build.program("attached"), "4"]) as process:
        before = attached.snapshot(process.pid)
        words = ["trace", "-c", "--from", "all", "-p", str(process.pid)]
        for number in parts:
            tracer = killed.start(log, words, number + killed.ANEW * goes_out)
            if goes_out:
                attached.wait_for_hooks(tracer)
                killed.count_anew(log)
                tracer.send_signal(signal.SIGINT)
            _, said = tracer.communicate(timeout=limit())
            assert tracer.returncode == -signal.SIGKILL, said
            # what it has begun in a process of its own is finished in a moment
            done = attached.detach(process.pid)
            assert done.returncode == 0, done.stderr
            assert process.poll() is None
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")
