# SPDX-License-Identifier: Apache-2.0
"""Programs that their loader is told to start (`ld.so PROGRAM`): as if they started themselves."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.machines.pythons import DISTRIBUTION
from tests.support.machines.tools import need
from tests.support.processes import attached, launching, tracing
from tests.support.processes.run import besides_cost, run
from tests.support.processes.tracing import Case
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, REPOSITORY
from tests.support.targets.survivors import TARGETS, counts, marks, report, soscope
from tests.support.time.progress import has_switched

LOADER = "/lib64/ld-linux-x86-64.so.2"
MUSL = "/lib/ld-musl-x86_64.so.1"
CELLS = {
    "pie": (LOADER, PLAIN),
    "nopie": (LOADER, PLAIN._replace(pie="nopie")),
    "now": (LOADER, PLAIN._replace(binding="now")),
    "musl": (MUSL, PLAIN._replace(compiler="musl")),
    "musl-nopie": (MUSL, PLAIN._replace(compiler="musl", pie="nopie")),
}
TARGETS_OF_CALLS = ("calls", "fork", "threads", "identity", "weak", "images", "signals")
CASES = [case for target in TARGETS_OF_CALLS for case in tracing.cases(target)]
PRELOAD = [sys.executable, "-m", "tests.support.processes.forbid", "ptrace"]


@pytest.mark.every(6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("cell", ["nopie", pytest.param("now", marks=pytest.mark.soak), "musl"])
def test_the_same_calls_are_counted(case: Case, cell: str, tmp_path: Path) -> None:
    loader, how = CELLS[cell]
    command = [need(loader), *tracing.program(case, how)]
    limit = tracing.timeout(case)
    wanted = tracing.plain(command, tmp_path, limit=limit)
    got = tracing.traced(
        command,
        tmp_path,
        mode="record",
        select=tracing.selection(case, wanted.truth),
        follow=True,
        orphans="orphans" in case.wish,
        limit=limit,
    )
    assert tracing.faults(wanted, got, mode="record", follow=True) == []


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("cell", "follow"), [*((cell, False) for cell in CELLS), ("nopie", True), ("musl", True)]
)
def test_a_program_that_runs_already(cell: str, follow: bool) -> None:
    loader, how = CELLS[cell]
    program = build.program("attached", how)
    with attached.running([need(loader), program, "1"]) as process:
        before = attached.snapshot(process.pid)
        options = ["-q", "-c", "--json", *["-f"] * follow]
        rounds = has_switched(process.pid, 40)  # in each of which it makes several calls
        done = attached.observe(process.pid, *options, until=rounds)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stderr)
        assert {row["caller"] for row in document["rows"]} == {program.name}
        assert document["totals"]["calls"] > 100
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--argv0", "other", "/bin/sh", "-c", "exit 3"], 3),
        (["--inhibit-cache", "--library-path", "/none", "/bin/sh", "-c", "exit 4"], 4),
    ],
)
def test_options_of_the_loader(words: list[str], status: int, tmp_path: Path) -> None:
    output = tmp_path / "output"
    done = soscope("trace", "-c", "--json", "-o", output, "--", LOADER, *words)
    assert (done.returncode, done.stdout) == (status, "")
    document = json.loads(output.read_text())
    assert document["totals"]["calls"] > 10
    assert "ran untraced" not in done.stderr
    name = os.path.basename(os.path.realpath("/bin/sh"))
    assert {row["caller"] for row in document["rows"]} == {name}


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    "words", [["--list", "/bin/true"], ["--version"], ["--none"], [], ["/none"]], ids=" ".join
)
def test_a_loader_that_starts_nothing(words: list[str], follow: bool, tmp_path: Path) -> None:
    output = tmp_path / "output"
    command = ["sh", "-c", '"$0" "$@"; exit 9', LOADER, *words] if follow else [LOADER, *words]
    alone = run(command)
    done = soscope("trace", "-c", *(["-f"] if follow else []), "-o", output, "--", *command)
    assert done.returncode == alone.returncode
    assert _without_addresses(done.stdout) == _without_addresses(alone.stdout)
    said = "ended while it was loaded" if words == ["/none"] else "has started no program"
    assert f"ran untraced: {'it is a loader, and ' * (words != ['/none'])}{said}" in (
        output.read_text() + done.stderr
    )


def _without_addresses(text: str) -> list[str]:
    return [line.split(" (0x")[0] for line in text.splitlines()]


def test_where_ptrace_is_forbidden() -> None:
    words = [*PRELOAD, *tracing.SOSCOPE, "--", LOADER, "/bin/sh", "-c", "env; exit 5"]
    env = launching.environment()
    alone = run([*PRELOAD, LOADER, "/bin/sh", "-c", "env; exit 5"], env=env)
    done = run(words, env=env)
    assert (done.returncode, done.stdout) == (5, alone.stdout)
    assert "ran untraced: no ptrace" in done.stderr


def test_objects_of_an_interpreter(tmp_path: Path) -> None:
    alive, recording = TARGETS / "alive.py", tmp_path / "rec"
    done = soscope("mem", "run", "-o", recording, "--", LOADER, DISTRIBUTION, alive)
    assert (done.returncode, done.stdout, besides_cost(done.stderr)) == (0, "14088\n", "")
    document = report(recording)
    wanted, seen = marks(alive, DISTRIBUTION), counts(document, str(alive))
    assert document["objects"] == "exact"
    assert {line: seen.get(line, {}) for line in wanted} == wanted


def test_a_hook_in_its_own_process() -> None:
    script = (
        "import os, soscope\n"
        "with soscope.hook('getpid', lambda original: -original()):\n"
        "    print(os.getpid() < 0)\n"
        "print(os.getpid() > 0)\n"
    )
    words = [LOADER, sys.executable, "-c", script]
    done = run(words, env=launching.environment(), cwd=REPOSITORY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n", "")
