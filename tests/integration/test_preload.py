# SPDX-License-Identifier: Apache-2.0
"""Where ptrace is forbidden the agent goes in through LD_PRELOAD, and leaves no trace of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.machines.tools import need
from tests.support.processes import attached, launching, tracing
from tests.support.processes.run import run
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

PYTHON = [sys.executable, "-m"]
FORBIDDEN = [*PYTHON, "tests.support.processes.forbid", "ptrace"]
TRACE = [*PYTHON, "soscope", "trace", "-q"]
SAID = "no ptrace: Operation not permitted: the agent went in through LD_PRELOAD"


def environment(**extra: str) -> dict[str, str]:
    return {**launching.environment(), **extra}


def both(words: list[str], **extra: str) -> tuple[str, str]:
    """Return what the command prints alone and under soscope, ptrace forbidden both times."""
    trace = [*TRACE, "--from", "all", "-o", os.devnull, "--"]
    outputs = []
    for middle in ([], trace):
        done = run([*FORBIDDEN, *middle, *words], env=environment(**extra))
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    return outputs[0], outputs[1]


def summary(words: list[str], out: Path, *, forbidden: bool) -> dict[tuple[str, str], int]:
    """Return how often the program called each (caller, symbol)."""
    command = [*TRACE, "--count-only", "--json", "--from", "all", "-o", str(out), "--", *words]
    same = environment(PERL_HASH_SEED="0", PERL_PERTURB_KEYS="0")
    done = run([*(FORBIDDEN if forbidden else ()), *command], env=same)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    return {(row["caller"], row["symbol"]): row["calls"] for row in rows}


@pytest.fixture(scope="module")
def of_the_user() -> str:
    """Return a library that a user might preload."""
    return str(launching.compiled("preloaded.c", "-shared", "-fPIC", text="int preloaded = 1;"))


@pytest.mark.parametrize("user", [False, True])
def test_the_environment_is_what_it_would_be(user: bool, of_the_user: str) -> None:
    extra = {"LD_PRELOAD": of_the_user} if user else {}
    alone, traced = both(["env"], **extra)
    assert traced == alone
    assert ("LD_PRELOAD" in traced) == user


def test_an_empty_preload_stays_empty() -> None:
    alone, traced = both(["env"], LD_PRELOAD="")
    assert traced == alone
    assert "LD_PRELOAD=\n" in traced


@pytest.mark.parametrize("user", [False, True])
def test_what_the_kernel_shows_of_the_environment(user: bool, of_the_user: str) -> None:
    extra = {"LD_PRELOAD": of_the_user} if user else {}
    alone, traced = both(["cat", "/proc/self/environ"], **extra)
    assert "SOSCOPE_PRELOAD" not in traced
    assert "/proc/self/fd" not in traced
    assert [entry for entry in traced.split("\0") if entry] == alone.split("\0")[:-1]


def test_the_users_library_is_loaded(of_the_user: str) -> None:
    code = "import ctypes; print(ctypes.CDLL(None).preloaded is not None)"
    alone, traced = both([sys.executable, "-c", code], LD_PRELOAD=of_the_user)
    assert traced == alone == "True\n"


def test_the_auxiliary_vector_is_aligned_and_whole() -> None:
    code = (
        "import ctypes; get = ctypes.CDLL(None).getauxval; get.restype = ctypes.c_ulong;"
        "print(get(6), get(9) != 0, get(33) != 0, get(16) != 0)"  # page size, entry, vDSO, hwcap
    )
    alone, traced = both([sys.executable, "-c", code])
    assert traced == alone


def test_as_many_calls_as_with_ptrace(tmp_path: Path) -> None:
    words = [need("perl"), "-e", "print join ',', sort map { $_ * 7 % 31 } 1 .. 100"]
    wanted, found = (
        summary(words, tmp_path / "out", forbidden=forbidden) for forbidden in (False, True)
    )
    # glibc itself asks a little more where something is preloaded
    assert {row: calls for row, calls in found.items() if row[0] == "perl"} == {
        row: calls for row, calls in wanted.items() if row[0] == "perl"
    }


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", tracing.MODES)
@pytest.mark.parametrize(
    "target", ["dlopen", "fork", "threads", "cxx_throw", "errno", "signals", "exec", "registers"]
)
def test_a_target_does_the_same_and_is_counted_right(
    target: str, mode: str, tmp_path: Path
) -> None:
    case = tracing.cases(target)[0]
    command, limit = tracing.program(case), tracing.timeout(case)
    wanted = tracing.plain(command, tmp_path, limit=limit)
    got = tracing.traced(
        command,
        tmp_path,
        mode=mode,
        select=tracing.selection(case, wanted.truth),
        orphans=True,
        limit=limit,
        prefix=FORBIDDEN,
        env={"PYTHONPATH": launching.python_path()},
    )
    assert not tracing.faults(wanted, got, mode=mode, follow=False)


def test_it_is_said(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*PYTHON, "soscope", "trace", "-o", str(out), "--", "true"]
    done = run([*FORBIDDEN, *command], env=environment())
    assert done.returncode == 0
    assert SAID in out.read_text() + done.stderr


def test_a_file_that_is_replaced_is_no_exec(tmp_path: Path) -> None:
    """The target is not traced, so what it runs is looked at now and then."""
    shell, other = (shutil.copy(need("dash"), tmp_path / name) for name in ("is", "will be"))
    script = f"echo before; read line; mv '{other}' '{shell}'; echo behind; read line; exit 3"
    command = ["env", f"PYTHONPATH={launching.python_path()}", *FORBIDDEN]
    command += [*PYTHON, "soscope", "trace", "-c", "--", str(shell), "-c", script]
    with attached.running(command, ready="before\n") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        until_it_has_looked(process)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "behind\n"
        until_it_has_looked(process)
        _, notes = process.communicate("go\n", timeout=limit())
    assert process.returncode == 3
    assert "untraced" not in notes


def until_it_has_looked(soscope: subprocess.Popen[str]) -> None:
    """Wait for a look at which program its target runs: it is due every 100 ms when it wakes."""
    time.sleep(0.2)
    until(has_switched(soscope.pid, 2), "soscope wakes", running=soscope)


def test_an_agent_that_is_not_started_is_said() -> None:
    need("strace")
    outcome = launching.launch(
        launching.launched(), "exit", "7", prefix=("strace", "-f", "-qq", "-o", os.devnull)
    )
    assert outcome.returncode == 7
    assert (outcome.reason or "").startswith("no ptrace: process")
    assert (outcome.reason or "").endswith("named in LD_PRELOAD")


def test_no_agent_goes_into_static_programs() -> None:
    program = launching.compiled("static.c", "-static", text="int main(void) { return 5; }")
    command = [*PYTHON, "soscope", "trace", "--", str(program)]
    done = run([*FORBIDDEN, *command], env=environment())
    assert done.returncode == 5
    assert "static" in done.stderr
    assert "ERROR: ld.so" not in done.stderr


@pytest.mark.parametrize(("words", "status"), [("exit 9", 9), ("kill -TERM $$", -15)])
def test_status_and_signal_are_the_programs(words: str, status: int) -> None:
    command = [*FORBIDDEN, *TRACE, "-c", "-o", os.devnull, "--", "sh", "-c", words]
    assert run(command, env=environment()).returncode == status
