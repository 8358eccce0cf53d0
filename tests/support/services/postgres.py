# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: a cluster, its server, and a client that measures.

The server refuses to run as root; then its own user runs it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.processes.tracing import Outcome
from tests.support.targets.kept import kept
from tests.support.targets.matrix import version
from tests.support.time.patience import limit, until, with_note

_LONG = 240.0  # seconds
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


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Make a folder of the server's user: a socket's path must be short, too."""
    tool("postgres")
    made = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(made, user.pw_uid, user.pw_gid)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def initdb(place: Path, *trace: str) -> Outcome:
    """Make a cluster in a folder."""
    words = ["-U", "bench", "-A", "trust", "--no-sync", "--no-instructions"]
    command = [*as_its_user(), tool("initdb"), "-D", str(place / "data"), *words]
    done = run([*trace, *command], env=ENVIRONMENT, cwd=place, timeout=limit(_LONG))
    return Outcome(done.stdout, done.stderr, done.returncode)


def cluster(place: Path) -> None:
    """Put a new cluster into a folder: a copy of one that is kept."""

    def make(there: Path) -> None:
        with folder() as made:
            outcome = initdb(made)
            assert outcome.status == 0, outcome
            subprocess.run(["cp", "-a", made / "data", there], check=True, timeout=limit())

    there = kept("postgres", version(tool("initdb")), Path(__file__), make=make)
    subprocess.run(["cp", "-a", there / "data", place], check=True, timeout=limit())


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
        ready = [tool("pg_isready"), "-q", "-h", str(place)]
        with with_note((place / "log").read_text):
            until(lambda: not run(ready).returncode, "it answers", running=process, seconds=_LONG)
        yield process
        pid = int((place / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        process.wait(limit(_LONG))
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def bench(place: Path, *words: str, trace: tuple[str, ...] = ()) -> list[str]:
    """Run pgbench and return the lines that no clock has anything to do with."""
    command = [tool("pgbench"), "-h", str(place), "-U", "bench", *words, "postgres"]
    done = run([*trace, *command], env=ENVIRONMENT, timeout=limit(_LONG))
    assert done.returncode == 0, done.stderr
    timed = ("latency", "initial connection time", "tps")
    return [line for line in done.stdout.splitlines() if not line.startswith(timed)]


def sums(place: Path) -> list[str]:
    """Return what transactions have added up to: all four are equal, for pgbench's."""
    words = [word for query in SUMS for word in ("-c", query)]
    done = run([tool("psql"), "-h", str(place), "-U", "bench", "-At", *words, "postgres"])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
