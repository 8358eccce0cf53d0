# SPDX-License-Identifier: Apache-2.0
"""Real programs, every slot of every image hooked and recorded in full: no difference."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.processes.tracing import Outcome
from tests.support.targets import build, programs
from tests.support.targets.kept import kept
from tests.support.targets.programs import Program
from tests.support.truth import recorded

LIMIT = 240.0
TABLE = programs.table()
Property = Callable[[str, object], None]  # shown by --junitxml


@pytest.fixture(scope="session")
def world() -> Path:
    """Return a folder to copy: files, a repository, an object and a program."""
    need("git")
    given = build.made({"in.c": programs.C}, "gcc -O1 -c in.c -o in.given.o") / "in.given.o"
    files = [given, *sorted(build.program("calls").parent.iterdir())]
    texts = (Path(__file__), Path(programs.__file__))
    return kept("world", *texts, *map(str, files), make=lambda folder: make_world(folder, files))


def make_world(folder: Path, files: list[Path]) -> None:
    programs.make_world(folder, files)
    environment = {**os.environ, **programs.ENVIRONMENT}
    shutil.copytree(folder / "tree", folder / "repo")
    git = functools.partial(subprocess.run, cwd=folder / "repo", env=environment, check=True)
    git(["git", "init", "-q", "-b", "main"])
    for text in ("first", "second", "third"):
        (folder / "repo" / "notes").write_text(text * 100)
        git(["git", "add", "."])
        git(["git", "commit", "-q", "-m", text])
    (folder / "repo" / "notes").write_text("fourth")


def contents(folder: Path) -> dict[str, str]:
    """Return what a program left in its folder: name, kind and content of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in programs.DIFFERS
    }


def outcome(words: list[str], folder: Path, stdin: str) -> Outcome:
    done = run(words, cwd=folder, env=programs.ENVIRONMENT, input=stdin, timeout=LIMIT)
    return Outcome(done.stdout, done.stderr, done.returncode)


def compare(program: Program, world: Path, folder: Path) -> int:
    """Compare a program's two runs; return how many calls were recorded."""
    need(program.command[0])
    place, before = folder / "place", folder / "before"
    recording = folder / "run.sosr"
    trace = [sys.executable, "-m", "soscope", "trace", "-q", "--from", "all"]
    trace += ["-f"] * program.follow + ["--record", str(recording), "--"]
    # both times at the same place: paths get into outputs
    shutil.copytree(world, place, symlinks=True)
    wanted = outcome(program.command, place, program.stdin)
    place.rename(before)
    shutil.copytree(world, place, symlinks=True)
    got = outcome([*trace, *program.command], place, program.stdin)
    assert got == wanted
    assert contents(place) == contents(before)
    found = recorded.by_columns(recording)
    assert not found.problems
    assert found.calls > 0
    return found.calls


@pytest.mark.every(12)
@pytest.mark.parametrize(
    "program", [row for row in TABLE if row.always], ids=lambda program: program.name
)
def test_a_program_does_the_same(
    program: Program, world: Path, tmp_path: Path, record_property: Property
) -> None:
    record_property("calls", compare(program, world, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize(
    "program", [row for row in TABLE if not row.always], ids=lambda program: program.name
)
def test_another_program_does_the_same(
    program: Program, world: Path, tmp_path: Path, record_property: Property
) -> None:
    record_property("calls", compare(program, world, tmp_path))


@pytest.fixture
def server(world: Path) -> Iterator[str]:
    """Serve the world over HTTP on the loopback interface."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def date_time_string(self, timestamp: float | None = None) -> str:
            del timestamp
            return "Sat, 03 Feb 2001 04:05:06 GMT"

    handler = functools.partial(Handler, directory=str(world))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()
        thread.join()


def test_curl_does_the_same(server: str, world: Path, tmp_path: Path) -> None:
    url = [f"{server}/big.txt", "-o", "one", f"{server}/in.json", "-o", "two"]
    compare(Program("curl", ["curl", "-sS", "-D", "-", *url]), world, tmp_path)
