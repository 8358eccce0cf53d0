# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL, every image, in full: a cluster is made, a server serves, a client measures.

The server refuses to run as root; then its own user runs it, and soscope stays root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import recorded
from tests.support.run import run
from tests.support.tools import need
from tests.support.tracing import Outcome

LIMIT = 240.0
TRACE = [sys.executable, "-m", "soscope", "trace", "-q", "--from", "all"]
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
SUMS = [
    "select count(*), sum(delta) from pgbench_history",
    "select sum(abalance) from pgbench_accounts",
    "select sum(bbalance) from pgbench_branches",
    "select sum(tbalance) from pgbench_tellers",
]


def tool(name: str) -> str:
    """Return the path of a program of the newest PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else need(name)


def as_its_user() -> list[str]:
    """Return what to put in front of a command that must not be root's."""
    if os.geteuid() != 0:
        return []
    return [need("setpriv"), "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder of the server's user: a socket's path must be short, too."""
    tool("postgres")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def initdb(place: Path, *trace: str) -> Outcome:
    words = ["-U", "bench", "-A", "trust", "--no-sync", "--no-instructions"]
    command = [*as_its_user(), tool("initdb"), "-D", str(place / "data"), *words]
    done = run([*trace, *command], env=ENVIRONMENT, cwd=place, timeout=LIMIT)
    return Outcome(done.stdout, done.stderr, done.returncode)


@contextlib.contextmanager
def served(place: Path, *trace: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; then it must end by itself."""
    settings = ["listen_addresses=", "fsync=off", f"unix_socket_directories={place}"]
    options = [word for setting in settings for word in ("-c", setting)]
    command = [*as_its_user(), tool("postgres"), "-D", str(place / "data"), *options]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [*trace, *command],
            env={**os.environ, **ENVIRONMENT},
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + LIMIT
        ready = [tool("pg_isready"), "-q", "-h", str(place)]
        while run(ready).returncode:
            assert process.poll() is None, (place / "log").read_text()
            assert time.monotonic() < end, (place / "log").read_text()
            time.sleep(0.1)
        yield process
        pid = int((place / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        process.wait(LIMIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def bench(place: Path, *words: str, trace: tuple[str, ...] = ()) -> list[str]:
    """Run pgbench and return the lines that no clock has anything to do with."""
    command = [tool("pgbench"), "-h", str(place), "-U", "bench", *words, "postgres"]
    done = run([*trace, *command], env=ENVIRONMENT, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    timed = ("latency", "initial connection time", "tps")
    return [line for line in done.stdout.splitlines() if not line.startswith(timed)]


def sums(place: Path) -> list[str]:
    words = [word for query in SUMS for word in ("-c", query)]
    done = run([tool("psql"), "-h", str(place), "-U", "bench", "-At", *words, "postgres"])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def whole(recording: Path) -> recorded.Recorded:
    found = recorded.by_columns(recording)
    assert not found.problems
    assert found.calls > 0
    return found


@pytest.mark.soak
def test_a_cluster_is_made_the_same(
    place: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    wanted = initdb(place)
    assert wanted.status == 0, wanted
    shutil.rmtree(place / "data")
    recording = tmp_path / "run.sosr"
    assert initdb(place, *TRACE, "-f", "--record", str(recording), "--") == wanted
    found = whole(recording)
    record_property("calls", found.calls)
    assert len({pid for pid, _ in found.by_process}) > 1
    with served(place):
        assert bench(place, "-i", "-q") == []


@pytest.mark.soak
def test_server_and_client_do_the_same(
    place: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    assert initdb(place).status == 0
    words = ["-n", "-c", "4", "-j", "2", "-t", "50", "--random-seed=1"]
    with served(place) as server:
        bench(place, "-i", "-q")
        wanted, wanted_sums = bench(place, *words), sums(place)
    assert server.returncode == 0
    one, two = tmp_path / "server.sosr", tmp_path / "client.sosr"
    with served(place, *TRACE, "-f", "--record", str(one), "--") as server:
        bench(place, "-i", "-q")
        assert bench(place, *words, trace=(*TRACE, "--record", str(two), "--")) == wanted
        assert sums(place) == wanted_sums
    assert server.returncode == 0, (place / "log").read_text()
    found = whole(one)
    record_property("calls", found.calls)
    assert len({pid for pid, _ in found.by_process}) > 4
    record_property("calls of the client", whole(two).calls)
