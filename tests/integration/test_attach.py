# SPDX-License-Identifier: Apache-2.0
"""Tracing a process that runs already: it does what it did, and is what it was afterwards."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from soscope.recording.reader import RecordingFile
from tests.support.machines.tools import namespaces, need, not_here
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.others import as_nobody, assert_refused
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, Cell
from tests.support.time.lasting import Visited, assert_no_longer, await_half
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_grown, has_run, has_switched, state
from tests.support.truth.recorded import by_columns

# Ways to look, each with the options that make it look at everything or at much.
MODES = {
    "count": ["--count-only", "--from", "all"],
    "times": ["-c", "--from", "all"],
    "record": ["--from", "all", "--record", "{}"],
    "text": ["-e", "malloc@MAIN", "--buffer", "256k", "-o", "{}"],
}
CELLS = [
    PLAIN,
    PLAIN._replace(binding="now"),
    PLAIN._replace(pie="nopie"),
    PLAIN._replace(compiler="clang"),
]


def options(mode: str, folder: Path) -> list[str]:
    """Return the words of a mode, with a place for its output."""
    return [word.format(folder / "output") for word in MODES[mode]]


def calls(text: str) -> dict[str, int]:
    """Return the calls by function of a table in JSON."""
    rows = json.loads(text)["rows"]
    found: dict[str, int] = {}
    for row in rows:
        found[row["symbol"]] = found.get(row["symbol"], 0) + row["calls"]
    return found


@pytest.mark.every(5)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 4])
def test_a_process_is_what_it_was(threads: int, mode: str, tmp_path: Path) -> None:
    with attached.running([build.program("attached"), str(threads)]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(2):  # the second finds the agent there
            done = attached.trace(process.pid, *options(mode, tmp_path), "--duration", "100ms")
            assert done.returncode == 0, done.stderr
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.every(2)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_however_a_program_is_linked(cell: Cell, tmp_path: Path) -> None:
    if cell.compiler == "clang":
        need("clang")
    with attached.running([build.program("attached", cell), "2"]) as process:
        before = attached.snapshot(process.pid)
        words = ["-c", "-e", "malloc@MAIN,free@MAIN,memset@MAIN", "--json"]
        output = tmp_path / "table.json"
        words += ["-o", str(output)]
        done = attached.observe(process.pid, *words, until=has_run(process.pid, cpu=0.02))
        assert done.returncode == 0, done.stderr
        found = calls(output.read_text())
        assert found["malloc"] > 0
        # each thread may be anywhere in its loop at either end
        assert abs(found["malloc"] - found["free"]) <= 4
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_a_recording_of_a_process_is_whole(tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    with attached.running([build.program("attached"), "1"]) as process:
        words = ["-e", "malloc@MAIN", "--record", str(record)]
        done = attached.observe(process.pid, *words, until=has_switched(process.pid))
        assert done.returncode == 0, done.stderr
        assert attached.finish(process)[0] == 7
    with RecordingFile.open(record) as found:
        assert not found.damage
    assert by_columns(record).by_name["malloc"] > 0


def test_the_stop_is_measured() -> None:
    with attached.running([build.program("attached"), "1"]) as process:
        done = attached.trace(process.pid, "-c", "-v", "--duration", "50ms")
        assert re.search(r"\d+ words restored; longest stop \d+\.\d ms", done.stderr)
        assert attached.finish(process)[0] == 7


INTERPRETERS = {
    "python3": "import sys, json, ssl\nprint('ready', flush=True)\n"
    "import select\nwhile not select.select([0], [], [], 0.001)[0]:\n"
    "    json.dumps(list(range(100)))\nprint('end')",
    "ruby": "puts 'ready'; $stdout.flush\n"
    "until IO.select([$stdin], nil, nil, 0.001); (1..50).map(&:to_s).join; end; puts 'end'",
    "node": "console.log('ready'); setInterval(() => JSON.stringify([1, 2, 3]), 1);"
    "process.stdin.on('data', () => { console.log('end'); process.exit(0) })",
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", ["times", "record", "count"])
@pytest.mark.parametrize("name", INTERPRETERS)
def test_interpreters_go_on(name: str, mode: str, tmp_path: Path) -> None:
    flag = "-c" if name == "python3" else "-e"
    with attached.running([need(name), flag, INTERPRETERS[name]]) as process:
        before = attached.snapshot(process.pid)
        done = attached.trace(process.pid, *options(mode, tmp_path), "--duration", "50ms")
        assert done.returncode == 0, done.stderr
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (0, "end\n", "")


# ---- refusals --------------------------------------------------------------


def refused(pid: int, status: int) -> str:
    """Try to trace a process that cannot be; return what is said."""
    done = attached.trace(pid, "--duration", "50ms")
    assert done.returncode == status, done.stderr
    return done.stderr


def test_a_static_program_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "sleeper.c"
    source.write_text("#include <unistd.h>\nint main(void) { return sleep(60) != 60; }\n")
    program = tmp_path / "sleeper"
    build.made_in(tmp_path, "gcc", "-static", source, "-o", program)
    with attached.running([program], ready="") as process:
        assert "statically linked" in refused(process.pid, 1)
        done = attached.detach(process.pid)
        assert (done.returncode, done.stdout) == (0, f"process {process.pid}: nothing to undo\n")
        assert process.poll() is None


def test_a_zombie_is_refused() -> None:
    process = subprocess.Popen(["/bin/true"])
    try:
        until(lambda: state(process.pid) == "Z", "it has ended, and nobody waits for it")
        assert "zombie" in refused(process.pid, 4)
    finally:
        process.wait()


def test_a_process_that_is_not_there() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert f"no process {process.pid}" in refused(process.pid, 4)


def test_a_thread_of_the_kernel_is_refused() -> None:
    if not Path("/proc/2/stat").exists() or "kthreadd" not in Path("/proc/2/stat").read_text():
        not_here("its threads are not to be seen")
    assert "kernel" in refused(2, 1)


# ---- threads that wait in the kernel ---------------------------------------

WAITS = {  # what each returns, and errno
    **dict.fromkeys(
        ("nanosleep", "clock_nanosleep", "sleep", "poll", "ppoll", "select", "pselect"), (0, 0)
    ),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), (0, 0)),
    "futex": (-1, errno.ETIMEDOUT),
    "sem_timedwait": (-1, errno.ETIMEDOUT),
    "sigtimedwait": (-1, errno.EAGAIN),
    "semtimedop": (-1, errno.EAGAIN),
    "msgrcv": (1, 0),
    "wait4": (3 << 8, 0),
    "flock": (0, 0),
    "pause": (-1, errno.EINTR),
    "read": (1, 0),
    "recv": (1, 0),
    "join": (0, 0),
    "epoll_signal": (-1, errno.EINTR),
}


# One of each way in which the kernel, or soscope, lets a call go on; all others in `make soak`.
OFTEN = {"nanosleep", "futex", "epoll_wait", "sigtimedwait", "read", "epoll_signal"}


@pytest.mark.parametrize(
    "wait", [pytest.param(one, marks=[] if one in OFTEN else pytest.mark.soak) for one in WAITS]
)
def test_a_wait_is_not_disturbed(wait: str) -> None:
    """Stopped twice in its second half, it returns what it would have, and when it would have."""

    def visit(seconds: int) -> list[Visited]:
        with attached.running([build.program("waits"), wait, str(seconds)]) as process:
            came = await_half(seconds)
            done = attached.trace(process.pid, "-c", "--from", "all", "--duration", "10ms")
            left = time.monotonic_ns()
            out, _ = process.communicate(timeout=limit())
        result, number, began, end = map(int, out.split())
        assert done.returncode == 0 or end < left, done.stderr
        assert (result, number) == WAITS[wait]
        return [Visited(began, came, left, end)]

    assert_no_longer(visit)


def ended(tracer: subprocess.Popen[str]) -> str:
    """End a trace; return its notes."""
    tracer.send_signal(signal.SIGINT)
    return tracer.communicate(timeout=limit())[1]


# ---- what it does while it is traced -----------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("follow", [False, True])
def test_children_go_on(follow: bool, tmp_path: Path) -> None:
    """Forked children do what they did; with -f they are seen; what they inherit is taken out."""
    output = tmp_path / "table.json"
    forks = tmp_path / "forks"
    with attached.running([build.program("forking"), forks]) as process:
        before = attached.snapshot(process.pid)
        words = ["-c", "-e", "abs@MAIN,fork@MAIN", "--json", "-o", str(output), *["-f"] * follow]
        done = attached.observe(process.pid, *words, until=has_grown(forks, 25))
        assert done.returncode == 0, done.stderr
        found = calls(output.read_text())
        assert found["fork"] > 20
        if follow:
            assert abs(found["abs"] - 10 * found["fork"]) <= 20
        else:
            assert found.get("abs", 0) <= 10  # by the child of one fork before
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        stay = set(listed.read_text().split())

        def one_stays() -> bool:
            stay.intersection_update(listed.read_text().split())
            return len(stay) == 1

        until(one_stays, "all children end but one")
        for pid in (process.pid, int(stay.pop())):
            assert attached.differences(before, pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_images_that_are_loaded_meanwhile_are_seen(tmp_path: Path) -> None:
    """By dlopen, threads, exec: as in a program that was started so."""
    text = (
        "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "import ssl, sqlite3, decimal\n"
        "sqlite3.connect(':memory:').execute('select 1')\n"
        "print('loaded', flush=True); sys.stdin.readline(); print('end')\n"
    )
    output = tmp_path / "table.json"
    with attached.running([need("python3"), "-c", text]) as process:
        before = attached.snapshot(process.pid)
        words = ["-c", "--from", "all", "--json", "-o", str(output)]
        tracer = attached.begin(process.pid, *words)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "loaded\n"
        notes = ended(tracer)
        assert tracer.returncode == 0, notes
        images = {row["caller"] for row in json.loads(output.read_text())["rows"]}
        assert any("sqlite3" in name for name in images), images
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (0, "end\n", "")


def test_an_exec_ends_the_trace(tmp_path: Path) -> None:
    with attached.running(
        [need("sh"), "-c", "echo ready; read line; exec cat"]  # its agent goes with its memory
    ) as process:
        record = tmp_path / "run.sosr"
        tracer = attached.begin(process.pid, "--record", str(record))
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        _, notes = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, notes
        assert "has executed" in notes
        assert attached.finish(process) == (0, "end\n", "")


# ---- processes that can open none of our files -------------------------------


@pytest.mark.every(2)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace a process of somebody else")
@pytest.mark.parametrize("how", ["user", "namespace"])
def test_a_process_that_cannot_reach_us(how: str, tmp_path: Path) -> None:
    """Of another user, or in a process namespace of its own: the files are made there."""
    program = [str(build.program("attached")), "2"]
    if how == "user":
        folder = tempfile.mkdtemp()  # where everybody may go
        os.chmod(folder, 0o755)
        program[0] = shutil.copy(program[0], folder)
        ids = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
        words = [need("setpriv"), *ids, *program]
    else:
        words = [*namespaces("--pid", "--fork", "--kill-child"), *program]
    with attached.running(words) as process:
        pid = process.pid
        if how == "namespace":
            [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pid = int(child)
        before = attached.snapshot(pid)
        for mode in ("times", "record", "count"):
            done = attached.trace(pid, *options(mode, tmp_path), "--duration", "100ms")
            assert done.returncode == 0, done.stderr
            assert attached.differences(before, pid) == []
        status, out, _ = attached.finish(process)
        assert (status, out) == (7, "wrong 0\n")
    if how == "user":
        shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_which_right_is_missing_is_said(public_path: Path) -> None:
    with attached.running([build.program("attached"), "0"]) as process:
        command = [*as_nobody(public_path), "trace", "-c", "-p", str(process.pid)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=limit(), check=False
        )
        assert_refused(done, "it belongs to")
        assert attached.finish(process)[0] == 7
