# SPDX-License-Identifier: Apache-2.0
"""Servers of databases and caches, each below a folder of its own, on a Unix socket alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.run import kill, run
from tests.support.targets.kept import kept
from tests.support.targets.matrix import version
from tests.support.time.patience import limit, until, with_note


@contextlib.contextmanager
def _served(words: Sequence[str | Path], place: Path) -> Iterator[Path]:
    """Run a server until the block ends; yield its socket when it answers there."""
    with (place.parent / f"{place.name}.log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
        )
    try:
        with with_note(Path(log.name).read_text):
            until(lambda: _answers(place), "it answers", running=process)
        yield place
    finally:
        if process.poll() is None:
            kill(process)


def _answers(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(place))
        except OSError:
            return False
    return True


def memcached(folder: Path) -> contextlib.AbstractContextManager[Path]:
    """Run memcached; its socket."""
    place = folder / "memcached.sock"
    words: list[str | Path] = [need("memcached"), "-s", place]
    return _served([*words, *_as_user("-u", "root")], place)


def redis(folder: Path) -> contextlib.AbstractContextManager[Path]:
    """Run redis-server, which keeps nothing; its socket."""
    place = folder / "redis.sock"
    words: list[str | Path] = [need("redis-server"), "--port", "0", "--unixsocket", place]
    return _served([*words, "--save", "", "--appendonly", "no"], place)


_OPTIONS = ("--no-defaults", "--innodb-log-file-size=4M")


def _installed(server: str) -> Path:
    """Return a folder of data of MariaDB, which is kept."""

    def make(folder: Path) -> None:
        words = [*_OPTIONS, *_as_user("--user=root"), f"--datadir={folder / 'data'}"]
        words += [f"--tmpdir={folder}", "--auth-root-authentication-method=normal"]
        made = run([need("mariadb-install-db"), *words, "--skip-test-db"], timeout=limit())
        assert made.returncode == 0, made.stdout + made.stderr

    return kept("mariadb", version(server), Path(__file__), make=make) / "data"


def mariadb(folder: Path) -> contextlib.AbstractContextManager[Path]:
    """Make a database and run its server; its socket, for the user root without a password."""
    place, data = folder / "mysqld.sock", folder / "data"
    server = need("mariadbd", "mariadb-install-db")
    shutil.copytree(_installed(server), data)
    # two servers that begin at once would delete each other's files in /tmp
    options = [*_OPTIONS, *_as_user("--user=root"), f"--datadir={data}", f"--tmpdir={folder}"]
    small = ["--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"]
    return _served([server, *options, f"--socket={place}", *small], place)


def _as_user(*words: str) -> list[str]:
    return list(words) if os.geteuid() == 0 else []
