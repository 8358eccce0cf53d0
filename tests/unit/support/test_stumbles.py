# SPDX-License-Identifier: Apache-2.0
"""The suite's runner: what it takes for a stumble, and what makes a run fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.leftovers import descriptors
from tests.support.processes.run import run
from tests.support.targets.matrix import REPOSITORY
from tests.support.time import quiet
from tests.support.time.patience import RanOut, limit, until

pytestmark = pytest.mark.slow

_HEAD = """
import subprocess
from pathlib import Path
import pytest
from tests.support.time.patience import RanOut

def first(name):
    path = Path(__file__).with_name(name)
    if path.exists():
        return False
    path.touch()
    return True
"""
_ONCE = """
def test_{0}():
    if first("{0}"):
        raise RanOut("it is hooked", 60)
"""


def ran(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests written in `text` below `folder`, with the suite's runner."""
    (folder / "test_it.py").write_text(_HEAD + text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.support.time.stumbles"]\n')
    words = [sys.executable, "-m", "pytest", *options]
    words += ["--basetemp", str(folder / "base")]
    env = {"PYTHONPATH": str(REPOSITORY), "SOSCOPE_TEST_STUMBLES": str(folder / "kept")}
    few = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist"}
    return run(words, cwd=folder, env={**env, **few})


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_what_stumbles_runs_again_and_is_named(tmp_path: Path, options: list[str]) -> None:
    text = _ONCE.format("a") + "\ndef test_b():\n    pass\n"
    done = ran(tmp_path, text, *options)
    assert done.returncode == 0, done.stdout
    assert "test_it.py::test_a: passed when it ran again, alone" in done.stdout
    assert "1 passed, 1 stumbled" in done.stdout
    kept = (tmp_path / "kept" / "1.txt").read_text()
    assert "it is hooked: not within 60 s" in kept
    assert "1 passed" in kept


def test_what_stumbles_twice_fails(tmp_path: Path) -> None:
    limited = "subprocess.run(['sleep', '9'], timeout=0.1)"
    done = ran(tmp_path, f"\ndef test_a():\n    {limited}\n")
    assert done.returncode == 1
    assert "test_a: did not pass when it ran again" in done.stdout


def test_four_stumbles_are_too_many(tmp_path: Path) -> None:
    done = ran(tmp_path, "".join(map(_ONCE.format, "defg")))
    assert done.returncode == 1
    assert "4 stumbled" in done.stdout


FAULTS = """
def test_count():
    assert not first("a")

def test_message():
    assert not first("b"), RanOut("it is hooked", 60)

def test_bug():
    print("soscope: a bug in soscope")
    raise RanOut("it is hooked", 60)

def test_sanitizer():
    words = ["sh", "-c", "echo ==1==ERROR: AddressSanitizer: heap; exec sleep 9"]
    subprocess.run(words, timeout=1, stdout=subprocess.PIPE)
"""


def test_a_fault_is_no_stumble(tmp_path: Path) -> None:
    done = ran(tmp_path, FAULTS)
    assert done.returncode == 1, done.stdout
    assert "4 failed" in done.stdout
    assert "stumbled" not in done.stdout
    assert "-m pytest 'test_it.py::test_count'" in done.stdout


@pytest.mark.parametrize(("code", "hangs"), [("sleep(99)", True), ("\nwhile 1: pass", False)])
def test_a_hang_is_told_from_work(code: str, hangs: bool) -> None:
    watch = quiet.Watch(begin=0.0, period=0.02)
    watch.begin()
    servers = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()  # of all tests
    words = [sys.executable, "-c", f"from time import sleep; print(flush=True); {code}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            if hangs:
                until(lambda: watch.quiet() > 0.3, "the process sleeps")
                assert {*watch.members()} - {*map(int, servers)} == {process.pid}
                assert f"{process.pid} S " in quiet.stacks([process.pid])
            else:
                until(lambda: process.pid in watch.members(), "the process is seen")
                assert watch.quiet() == 0.0
        finally:
            process.kill()
            watch.end()


def test_the_files_of_a_watch_are_none_that_a_test_has_left() -> None:
    watch = quiet.Watch(begin=0.0, period=0.0)
    before = descriptors().keys()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    watch.begin()
    try:
        for _ in range(1000):
            assert descriptors().keys() == before
    finally:
        watch.end()
        sys.setswitchinterval(interval)


def test_a_wait_says_what_it_waited_for() -> None:
    with pytest.raises(RanOut, match=r"the moon: not within \d+ s"):
        until(lambda: 0, "the moon", seconds=0.01)
    with subprocess.Popen(["true"]) as process:
        process.wait()
        with pytest.raises(AssertionError, match="a process has ended with 0: the moon"):
            until(lambda: 0, "the moon", running=process)
    assert until(lambda: 7, "a number") == 7
    assert limit(1) >= 1
