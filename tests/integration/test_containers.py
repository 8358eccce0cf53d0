# SPDX-License-Identifier: Apache-2.0
"""Programs in a process namespace: what they call themselves is another number than ours.

A container's first process has the id 1, as many a flag of a program's own is; and its threads
and children have numbers that mean others outside.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.tools import namespaces, need
from tests.support.processes import attached, tracing
from tests.support.processes.launching import environment
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import waits_in
from tests.support.truth import recorded
from tests.support.truth.account import Truth, wrong

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes process namespaces")
# Longer than soscope needs to notice that a thread has ended (two looks at it).
PAUSE = str(700_000)
THREADS = ("threads", "3", "40", PAUSE)
HASTY = (*THREADS[:-1], "0")  # for who looks at no thread
_FUTEX = 202  # on x86-64


def unshare(*more: str) -> list[str]:
    """Return a command that runs another as the first process of a namespace."""
    return namespaces("--pid", "--mount-proc", "--fork", "--kill-child", *more)


def count(record: Path, truth: Path) -> list[str]:
    """Return what of a recording differs from what the program says it did."""
    found = recorded.by_columns(record)
    facts = Truth.read(truth)
    assert facts.names
    return found.problems + wrong(found.by_name, facts.bounds(followed=True))


@contextlib.contextmanager
def ready(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the program in a container until it waits for a line; yields (unshare, its pid)."""
    program = [str(build.program("numbers")), *arguments, "wait"]
    words = ["env", f"SOSC_TRUTH={folder / 'truth'}", *unshare(), *program]
    with attached.running(words) as process:
        yield process, child_of(process.pid)


def child_of(pid: int) -> int:
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def wait_for_hooks(pid: int, before: attached.Words) -> None:
    """Wait until the program's slots of f1 and f2 have another value."""

    def are_hooked() -> bool:
        return sum("/numbers .got" in line for line in attached.differences(before, pid)) >= 2

    until(are_hooked, "it is hooked")


def be_away(soscope: int, pid: int) -> None:
    """Stop soscope until a child of a process waits, which it does for soscope alone."""
    children = Path(f"/proc/{pid}/task/{pid}/children")

    def one_waits() -> bool:
        with contextlib.suppress(OSError):  # it has just ended
            return any(waits_in(int(child), _FUTEX)() for child in children.read_text().split())
        return False

    os.kill(soscope, signal.SIGSTOP)
    try:
        until(one_waits, "a child waits for room")
    finally:
        os.kill(soscope, signal.SIGCONT)


def traced(
    folder: Path,
    pid: int,
    process: subprocess.Popen[str],
    how: str,
    *options: str,
    away: bool = False,
) -> list[str]:
    """Trace what a process does; return what is wrong with the recording.

    The trace ends first: with a namespace's first process all others in it end, too. `away`:
    soscope is stopped when the process begins, until a child has no room.
    """
    record = folder / "run.sosr"
    enter = [need("nsenter"), "--pid", "--mount", "-t", str(pid)] if how == "inside" else []
    words = [*enter, sys.executable, "-m", "soscope", "--debug", "trace", "-e", "f1,f2"]
    words += ["--record", str(record), *options, "-p", "1" if enter else str(pid)]
    before = attached.snapshot(pid)
    tracer = subprocess.Popen(
        words, env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for_hooks(pid, before)
        if "-f" in options:
            attached.wait_for_helper(tracer.pid, pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        if away:
            be_away(tracer.pid, pid)
        assert process.stdout.readline() == "done\n"
        os.kill(child_of(tracer.pid) if enter else tracer.pid, signal.SIGINT)
        _, notes = tracer.communicate(timeout=limit())
    finally:
        tracer.kill()
    assert tracer.returncode == 0, notes
    assert attached.finish(process) == (0, "", "")
    return count(record, folder / "truth")


@pytest.mark.parametrize("how", ["inside", "outside"])
def test_threads_of_the_first_process_that_runs_already(how: str, tmp_path: Path) -> None:
    with ready(tmp_path, *THREADS) as (process, pid):
        assert traced(tmp_path, pid, process, how) == []


@pytest.mark.parametrize("mode", ["count", "summary", "record"])
def test_threads_of_the_first_process(mode: str, tmp_path: Path) -> None:
    """It has threads from the first moment, and is executed by a program that has none."""
    command = [*unshare(), str(build.program("numbers"))]
    wanted = tracing.plain([*command, *HASTY], tmp_path)
    command += THREADS
    got = tracing.traced(command, tmp_path, mode=mode, select="f1,f2", follow=True)
    assert tracing.faults(wanted, got, mode=mode, follow=True) == []


# A ring of 16 chunks, and 256 spare ones where address space is limited: more children than
# that only have room if what the dead have held comes back.
CHILDREN = 400
SMALL = ("--buffer", "256K")


@pytest.fixture
def little_room() -> Iterator[None]:
    """Limit the size of files, which leaves a small number of spare chunks."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.every(3)
@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("mode", ["count", "summary", "record"])
def test_children_of_the_first_process(mode: str, tmp_path: Path) -> None:
    program = [str(build.program("numbers")), "forks", str(CHILDREN), "2"]
    command = [*unshare(), *program]
    wanted = tracing.plain(command, tmp_path)
    options = SMALL if mode == "record" else ()
    got = tracing.traced(command, tmp_path, mode=mode, select="f1,f2", follow=True, options=options)
    assert tracing.faults(wanted, got, mode=mode, follow=True) == []


@pytest.mark.usefixtures("little_room")
def test_children_of_a_process_that_runs_already(tmp_path: Path) -> None:
    """They wait for soscope: it may have been away while the dead held all the room."""
    options = ("-f", *SMALL, "--when-full", "block")
    with ready(tmp_path, "forks", str(CHILDREN), "2") as (process, pid):
        assert traced(tmp_path, pid, process, "outside", *options, away=True) == []


BESIDE_IT = """\
"$0" 1000000000000 >/dev/null &
test $! = 2 || exit 9
"$1" -m soscope trace -c --duration 50ms -p 2
status=$?
kill 2
exit $status
"""


def test_process_2_of_a_namespace_is_no_thread_of_the_kernel() -> None:
    done = run(
        [*unshare(), "sh", "-c", BESIDE_IT, str(build.program("many_calls")), sys.executable]
    )
    assert done.returncode == 0, done.stderr
    assert "calls through" in done.stderr
