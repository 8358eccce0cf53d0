# SPDX-License-Identifier: Apache-2.0
"""The instrument of docs/how-to/add-an-instrument.md, built as it stands there and used."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import soscope
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import run
from tests.support.services.postgres import ENVIRONMENT, folder, served, tool
from tests.support.services.postgres import cluster as copy_cluster
from tests.support.targets import build
from tests.support.targets.build import UNOPTIMISED, made_in, unoptimised
from tests.support.targets.kept import kept
from tests.support.targets.matrix import tools
from tests.support.time.patience import limit
from tests.support.truth.account import Truth

pytestmark = pytest.mark.shares

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "how-to" / "add-an-instrument.md"
QUERIES = 400
TABLES = [
    "native/include/soscope/wire.h",
    "native/agent/base/instrument.h",
]
# The script that mirrors the headers, and what else it writes.
WRITTEN = [
    "scripts/wire.py",
    "prototypes/groups.txt",
    "prototypes/families.txt",
    "docs/cli/soscope-mem-run.md",
]

# Traces write(2) and counts its bytes in one session on a process, until there is a line on
# standard input. Prints both accounts.
BOTH = """
import sys, threading
from soscope.control.session import Session
from soscope.instruments.trace.instrument import TraceInstrument
from soscope.instruments.trace.listener import (Destination, Listener,)
from soscope.instruments.trace.settings import TraceSettings
from soscope.instruments.written import Written
from soscope.model.call import Entry, Exit

class Sum(Listener):
    calls = done = 0
    def events(self, batch):
        self.calls += sum(isinstance(event, Entry) for event in batch)
        self.done += sum(event.result for event in batch if isinstance(event, Exit))

class Told(Written):
    def move(self):
        print("hooked", flush=True)
        self.move = lambda: False
        return False

settings = TraceSettings([], select=["write"], pids=[int(sys.argv[1])])
listener, written = Sum(), Told("MAIN")
trace = TraceInstrument(settings, listener, Destination())
instruments = [written, trace]
session = Session(settings, instruments)
def stop():
    sys.stdin.readline()
    session.stop("")
threading.Thread(target=stop, daemon=True).start()
outcome = session.run()
print(listener.calls, listener.done, written.calls, written.passed, written.done, sep=",")
print(outcome.shortfalls, trace.outcome.calls, outcome.attached[0].failure)
"""


# The page's instrument, for another function.
HOOK_DLSYM = """\
from soscope.instruments import written as made
written.hooks = made.Hooks(
    made.layout.INSTRUMENT_WRITTEN,
    made.compile_selection(["dlsym"], ["MAIN"]),
    made.load(),
    own_size=made.layout.MAX_SLOTS * 24,
)
"""


@functools.cache
def blocks() -> dict[str, str]:
    """Return what the page shows: a file's text by its path, and the diff by "diff"."""
    found = re.findall(
        r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return {path or kind: text for kind, path, text in found}


@pytest.fixture(scope="module")
def place() -> Path:
    """Return what to import soscope with the page's instrument from; it is built once."""
    installed = Path(soscope.__file__).parent
    sources = [
        path
        for folder in (REPOSITORY / "native", installed)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    ]
    parts: list[str | Path] = [UNOPTIMISED, PAGE, tools(), *map(str, sources), *sources]
    return kept("how-to", *parts, make=build_soscope) / "src"


def build_soscope(top: Path) -> None:
    """Build soscope with the page's instrument in a folder; nobody asks how quick it is."""
    shutil.copytree(REPOSITORY / "native", top / "native")
    unoptimised(top / "native" / "build.sh")
    shutil.copytree(Path(soscope.__file__).parent, top / "src" / "soscope")
    for path, text in blocks().items():
        if "/" in path:
            (top / path).parent.mkdir(exist_ok=True)
            (top / path).write_text(text)
    (top / "tables.diff").write_text(blocks()["diff"])
    done = run([need("git"), "apply", "tables.diff"], cwd=top)
    assert (done.returncode, done.stderr) == (0, "")
    for name in WRITTEN:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, top / name)
    done = run([sys.executable, str(top / "scripts" / "wire.py")], env={"CC": need("gcc")})
    assert (done.returncode, done.stderr) == (0, "")
    done = run(
        ["sh", str(top / "native" / "build.sh"), str(top / "src" / "soscope" / "_agent")],
        env={"CC": need("gcc")},
        timeout=limit(300),
    )
    assert (done.returncode, done.stderr) == (0, "")


def with_instrument(place: Path) -> dict[str, str]:
    return {**environment(), "PYTHONPATH": str(place)}


def test_an_instrument_is_two_small_files_and_rows_of_tables() -> None:
    files = [path for path in blocks() if path.startswith(("native/", "src/"))]
    assert files == ["native/agent/written/written.c", "src/soscope/instruments/written.py"]
    assert sum(blocks()[path].count("\n") for path in files) <= 150
    assert re.findall(r"^\+\+\+ b/(\S+)$", blocks()["diff"], re.MULTILINE) == TABLES
    changed = re.findall(r"^[+-](?![+-]{2} ).*$", blocks()["diff"], re.MULTILINE)
    assert len(changed) <= 6


def test_it_counts_what_a_program_writes(place: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(blocks()["use.py"])
    command = [str(build.program("writes")), "5", "300"]
    done = run(
        [sys.executable, str(script), *command],
        env={**with_instrument(place), "SOSC_TRUTH": str(tmp_path / "truth")},
        timeout=limit(120),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Truth.read(tmp_path / "truth").bounds(followed=True)["write"] == (305, 305)
    assert done.stdout == "305 calls, 305 bytes passed, 305 written\n"


def test_what_cannot_be_written_is_passed_and_not_done(place: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(blocks()["use.py"])
    code = "open(F, '>', '/dev/full'); syswrite(F, 'x' x 100) for 1 .. 7; print 'end,'"
    command = [need("perl"), "-e", code]
    done = run(
        [sys.executable, str(script), *command], env=with_instrument(place), timeout=limit(120)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "end,8 calls, 704 bytes passed, 4 written\n"


def test_a_function_that_looks_at_its_caller_does_not_come_back(
    place: Path, tmp_path: Path
) -> None:
    """dlsym(RTLD_NEXT) asks whose code it returns to: the instrument comes back to none."""
    program = tmp_path / "next.c"
    program.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n"
        'int main(void) { return puts(dlsym(RTLD_NEXT, "puts") ? "next" : dlerror()) < 0; }\n'
    )
    made_in(tmp_path, "gcc", "-o", "next", "next.c", "-ldl")
    script = tmp_path / "use.py"
    made = 'Written("MAIN")\n'
    script.write_text(blocks()["use.py"].replace(made, made + HOOK_DLSYM))
    done = run([sys.executable, str(script), str(tmp_path / "next")], env=with_instrument(place))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("next\n1 calls")


@contextmanager
def client(place: Path) -> Iterator[tuple[int, IO[str], IO[str]]]:
    """Yield the pid of a backend whose statements are logged, and its client's pipes."""
    words = [tool("psql"), "-h", str(place), "-U", "bench", "-At", "postgres"]
    with subprocess.Popen(
        words,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("set log_statement = 'all';\nselect pg_backend_pid();\n")
        process.stdin.flush()
        assert process.stdout.readline() == "SET\n"
        yield int(process.stdout.readline()), process.stdin, process.stdout
        process.stdin.close()
        assert process.wait(60) == 0


def logged(place: Path, pid: int) -> list[str]:
    """Return the lines that a backend has written to the server's log."""
    return re.findall(rf"^\[{pid}\].*\n", (place / "log").read_text(), re.MULTILINE)


def test_it_and_trace_see_the_same_slots_of_a_backend(place: Path) -> None:
    with folder() as cluster:
        copy_cluster(cluster)
        with (cluster / "data" / "postgresql.conf").open("a") as settings:
            settings.write("log_line_prefix = '[%p] '\n")
        with served(cluster), client(cluster) as (pid, orders, answers):
            before_words, before = attached.snapshot(pid), logged(cluster, pid)
            observer = subprocess.Popen(
                [sys.executable, "-c", BOTH, str(pid)],
                env={**os.environ, **with_instrument(place)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert observer.stdout is not None
            assert observer.stdout.readline() == "hooked\n"
            for number in range(QUERIES):
                orders.write(f"select {number};\n")
                orders.flush()
                assert answers.readline() == f"{number}\n"
            out, _ = observer.communicate("\n", timeout=attached.LIMIT)
            lines = logged(cluster, pid)[len(before) :]
            assert attached.differences(before_words, pid) == []
            orders.write("select 'goes on';\n")
            orders.flush()
            assert answers.readline() == "goes on\n"
    size = sum(map(len, lines))
    assert len(lines) == QUERIES
    assert out.splitlines() == [
        f"{QUERIES},{size},{QUERIES},{size},{size}",
        f"[] {QUERIES} None",
    ]
