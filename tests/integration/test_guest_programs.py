# SPDX-License-Identifier: Apache-2.0
"""Real programs in which libraries are loaded while they run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from soscope.control.shield import shielded
from soscope.errors import NoSuchProcess
from soscope.proc import status
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.guests import Guests
from tests.support.services import postgres
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.lasting import Visited, assert_no_longer, await_half
from tests.support.time.patience import limit, until
from tests.support.time.progress import cpu_seconds, waits_in

_TURNS = 20
_FOR_INPUT = (0, 7, 23, 270, 271)  # read, poll, select, pselect6, ppoll on x86-64

# They work until they are told that it is enough, however busy the machine is.
_PYTHON = """
import select, threading, time, zlib
over, seen = threading.Event(), set()
def work():
    data = b"soscope" * 1000
    while not over.is_set():
        data = zlib.decompress(zlib.compress(data))
        seen.add(zlib.crc32(data))
def nap():
    while not over.is_set():
        time.sleep(0.02)
threads = [threading.Thread(target=f) for f in (work, work, nap)]
for thread in threads: thread.start()
while True:
    seen.add(sum(i * i % 7 for i in range(10**5)))
    if select.select([0], [], [], 0)[0]: break
over.set()
for thread in threads: thread.join()
print(sorted(seen))
"""
_RUBY = """
seen = []
begin
  n = 0
  300_000.times { |i| n += (i * 0.5).to_s.size % 3 if i % 7 == 0 }
  seen |= [n]
end until IO.select([$stdin], nil, nil, 0)
p seen
"""
_IN_TRANSACTION = (b"UPDATE", b"INSERT", b"in transaction")
_SQL = (
    "with recursive n(i) as (select 1 union all select i+1 from n where i < 1000000) "
    "select sum(i % 7), count(distinct i % 1001) from n;\n"
)


def library() -> Path:
    return build.program("guest").with_name("libguest.so")


def load_often(pid: int, turns: int = _TURNS, path: Path | None = None) -> int:
    """Load and unload a library until the program has ended, or often enough; return how often."""
    done = 0
    guest = Guests(pid)
    try:
        for _ in range(turns):
            assert shielded(lambda: (guest.load(path or library()),))[0] > 0
            done += 1
    finally:
        guest.close()
    return done


def output(command: list[str], text: str) -> str:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=limit(120), check=True
    ).stdout


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ([sys.executable, "-c", "print(input())"], "a line\n"),
        (["sqlite3"], "select 6 * 7;\n"),
        (["ruby", "-e", "puts gets"], "a line\n"),
        (["cat"], "a line\n"),
        (["bash", "-c", "read x; echo $x"], "a line\n"),
        (["perl", "-e", "print scalar <STDIN>"], "a line\n"),
    ],
    ids=lambda value: os.path.basename(value[0]) if isinstance(value, list) else "",
)
def test_programs_that_wait_for_input(command: list[str], text: str) -> None:
    need(command[0])
    wanted = output(command, text)
    with attached.running(command, ready="") as process:
        until(waits_in(process.pid, *_FOR_INPUT), "it waits for input", running=process)
        assert load_often(process.pid) == _TURNS
        assert process.communicate(text, timeout=limit()) == (wanted, "")
        assert process.returncode == 0


@pytest.mark.every(3)
@pytest.mark.parametrize("turns", sizes(5, _TURNS))
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ([sys.executable, "-c", _PYTHON], ""),
        (["ruby", "-e", _RUBY], ""),
        (["sqlite3"], _SQL),
    ],
    ids=lambda value: os.path.basename(value[0]) if isinstance(value, list) else "",
)
def test_programs_that_work(command: list[str], text: str, turns: int) -> None:
    need(command[0])
    wanted = output(command, text)
    with attached.running(command, ready="") as process:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.flush()
        until(lambda: cpu_seconds(process.pid) > 0.2, "it has begun to work", running=process)
        assert load_often(process.pid, turns) == turns
        assert process.poll() is None, "it was to work for longer"
        assert process.communicate("", timeout=limit(120)) == (wanted, "")
        assert process.returncode == 0


def test_sleep_sleeps_as_long_as_it_should() -> None:
    """Also if it is stopped several times, as it would without."""

    def visit(seconds: int) -> list[Visited]:
        began = time.monotonic_ns()
        with attached.running(["sleep", str(seconds)], ready="") as process:
            came = await_half(seconds, began)
            with contextlib.suppress(NoSuchProcess):  # the wait is over, and this is too late
                load_often(process.pid, 5)
            left = time.monotonic_ns()
            assert process.wait(limit()) == 0
            ended = time.monotonic_ns()
        return [Visited(began, came, left, ended)]

    assert_no_longer(visit)


@pytest.mark.parametrize("turns", sizes(5, _TURNS))
def test_a_database_server_and_its_session(turns: int) -> None:
    """Between the transactions of a client, and in them."""
    with postgres.folder() as place:
        postgres.cluster(place)
        with postgres.served(place) as server:
            postgres.bench(place, "-i", "-q")
            mine = Path(shutil.copy(library(), place))
            mine.chmod(0o755)
            words = [postgres.tool("pgbench"), "-n", "-h", str(place), "-U", "bench", "-T", "600"]
            with attached.running([*words, "postgres"], ready="") as client:
                session = _session_of(server.pid)
                assert load_often(session, turns, mine) == turns
                assert load_often(server.pid, turns, mine) == turns
                client.send_signal(signal.SIGALRM)  # its time is over
                assert client.wait(limit()) == 0
            assert len(set(postgres.sums(place))) <= 2
        assert server.returncode == 0


def _session_of(server: int) -> int:
    """Wait for the process that serves pgbench's transactions; it has another one before."""

    def session() -> int:
        for pid in status.descendants(server):
            line = _words_of(pid)
            if b"[local]" in line and any(word in line for word in _IN_TRANSACTION):
                return pid
        return 0

    return until(session, "it serves pgbench")


def _words_of(pid: int) -> bytes:
    """Return how a process is called, nothing where it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
