# SPDX-License-Identifier: Apache-2.0
"""The plan of a traced program: soscope alone writes to it, whatever the program tries."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.others import drop
from tests.support.processes.run import run, soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

REPOSITORY = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0
OTHER_USER = pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
USERS = ["same", pytest.param("other", marks=OTHER_USER)]
# by a mapping: mprotect, madvise, process_vm_writev, /proc/self/mem
BY_MAPPING = 4
# by a file: pwrite, ftruncate, fallocate, a new mapping, mprotect of one
BY_FILE = 5


def writer() -> Path:
    """Return the program that tries to write to its plan."""
    words = ["gcc", "-O1", f"-I{REPOSITORY / 'native' / 'include'}"]
    return build.compiled("plan_writer", words, [build.TARGETS / "hostile" / "plan_writer.c"])


@pytest.fixture
def words(request: pytest.FixtureRequest, public_path: Path) -> list[str]:
    """Return the command, of the same user or of another one."""
    if request.param == "same":
        return [str(writer())]
    return [*drop(), shutil.copy(writer(), f"{public_path}/plan_writer")]


def assert_nothing_was_written(said: str, ways: int) -> None:
    plans, tries, done = (int(word) for word in said.split())
    assert plans == 1
    assert tries >= ways
    assert done == 0


@pytest.mark.parametrize("mode", ["text", "-c", "--count-only", "-f"])
def test_a_program_cannot_write_to_its_plan(mode: str) -> None:
    options = [] if mode == "text" else [mode]
    done = soscope("trace", "-e", "getenv", *options, "--", writer())
    assert done.returncode == 7, done.stderr
    ways = BY_MAPPING + (BY_FILE if IS_ROOT else 0)
    assert_nothing_was_written(done.stdout.splitlines()[0], ways)
    assert "20 calls" in done.stderr
    assert is_whole(done.stderr)


def test_nor_where_the_loader_has_put_the_agent_in() -> None:
    """As a library named in LD_PRELOAD, as strace traces it already."""
    words = [need("strace"), "-f", "-o", "/dev/null", sys.executable, "-m", "soscope"]
    done = run([*words, "trace", "-e", "getenv", "--", str(writer())])
    assert done.returncode == 7, done.stderr
    assert "LD_PRELOAD" in done.stderr
    assert_nothing_was_written(done.stdout.splitlines()[0], BY_MAPPING)
    assert "20 calls" in done.stderr


@pytest.mark.parametrize("words", USERS, indirect=True)
@pytest.mark.parametrize("options", [[], ["-c"], ["-f", "-c"]], ids=" ".join)
def test_a_process_cannot_write_to_its_plan(words: list[str], options: list[str]) -> None:
    """root traces it: its own process, or another user's, which can open none of root's files."""
    with attached.running([*words, "stay"]) as process:
        tracer = attached.begin(process.pid, "-e", "getenv", *options)
        status, stdout, _ = attached.finish(process)
        assert status == 7
        assert_nothing_was_written(stdout.splitlines()[0], BY_MAPPING)
        _, stderr = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, stderr
        assert "calls through 1 slot of plan_writer" in stderr
        assert is_whole(stderr)


@pytest.mark.parametrize("words", USERS, indirect=True)
def test_nor_when_soscope_was_killed_and_comes_again(words: list[str]) -> None:
    """The plan is given back with all else that belongs to a session."""
    with attached.running([*words, "stay"]) as process:
        tracer = attached.begin(process.pid, "-c", "-e", "getenv")
        tracer.send_signal(signal.SIGKILL)
        tracer.communicate(timeout=limit())
        until(has_switched(process.pid, 20), "it goes on")
        for _ in range(2):
            done = attached.trace(process.pid, "-c", "-e", "getenv", "--duration", "0.1s")
            assert done.returncode == 0, done.stderr
            assert "calls through 1 slot of plan_writer" in done.stderr
            assert "dropped" not in done.stderr
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        assert len([line for line in maps if "memfd:soscope" in line and " r--s " in line]) == 0
        status, stdout, _ = attached.finish(process)
        assert (status, stdout.split()[0]) == (7, "0")  # nothing is left to write to


def test_the_process_has_no_descriptor_of_it() -> None:
    with attached.running([str(writer()), "stay"]) as process:
        folder = Path(f"/proc/{process.pid}/fd")
        before = sorted(os.readlink(each) for each in folder.iterdir())
        tracer = attached.begin(process.pid, "-c", "-e", "getenv")
        assert sorted(os.readlink(each) for each in folder.iterdir()) == before
        assert attached.finish(process)[0] == 7
        tracer.communicate(timeout=limit())


@pytest.mark.parametrize("mode", ["text", "-c", "--count-only", "--record", "-f"])
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_random_words_in_the_block_change_nothing_that_soscope_has_said(
    mode: str, seed: int, tmp_path: Path
) -> None:
    options = [] if mode == "text" else [mode]
    if mode == "--record":
        options.append(str(tmp_path / "recording"))
    done = soscope("trace", "-e", "getenv", *options, "--", writer(), str(seed))
    assert done.returncode == 7, done.stderr
    assert "bug" not in done.stderr
