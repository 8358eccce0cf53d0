# SPDX-License-Identifier: Apache-2.0
"""`soscope.trace` in programs: many runs, few descriptors, signals that they ignore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import soscope
from tests.support.processes import attached, launching, tracing
from tests.support.processes.run import run
from tests.support.processes.tracing import Case
from tests.support.targets import build
from tests.support.time.patience import limit

HEAD = """
import json, os, resource, signal, sys, threading, time
import soscope

def files():
    return len(os.listdir("/proc/self/fd"))

def calls(command, **more):
    with soscope.trace(command, select="f0", **more) as run:
        return sum(1 for _ in run), run.exit_status

def say(value):
    print(json.dumps(value))
"""


def said(body: str, *words: str, python: tuple[str, ...] = (sys.executable,)) -> Any:
    """Run a program of the user's; return what it says. `words` are its command."""
    script = HEAD + "command = sys.argv[1:]\n" + body
    env = launching.environment()
    done = run([*python, "-c", script, *words], env=env, timeout=limit(120))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def ten_calls() -> list[str]:
    return tracing.program(Case("told", ("last", "10", "6")))


@pytest.mark.parametrize("follow", [False, True])
def test_runs_leave_no_descriptor_behind(follow: bool) -> None:
    body = f"""
before = []
for _ in range(6):
    assert calls(command, follow={follow}) == (10, 7)
    before.append(files())
try:
    calls(["/no/such/program"])
    raise AssertionError("it has run")
except soscope.SoscopeError:
    pass  # it leaves nothing open either
say([before, files()])
"""
    between, after = said(body, *ten_calls())
    assert {*between, after} == {between[0]}


def test_many_runs_need_few_descriptors() -> None:
    body = """
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
say([calls(command)[0] for _ in range(45)])
"""
    assert said(body, *ten_calls()) == [10] * 45


def test_a_command_that_nothing_is_seen_of_is_an_error() -> None:
    """Descriptors are short: it runs, and untraced."""
    body = """
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(40 - files())]
found = []
for free in range(24):
    for _ in range(free):
        os.close(kept.pop())
    run = soscope.trace(command, select="f0")
    try:
        with run:
            found.append(sum(1 for _ in run))
    except soscope.SoscopeError as error:
        found.append([type(error).__name__, str(error), run.exit_status, run.untraced])
    while len(kept) < 40 and files() < 38:
        kept.append(os.open("/dev/null", os.O_RDONLY))
say(found)
"""
    found = said(body, *ten_calls())
    assert 10 in found
    errors = [one for one in found if one != 10]
    assert all(isinstance(one, list) for one in errors), found
    ran = [one for one in errors if one[2] is not None]
    assert ran
    for name, text, status, untraced in ran:
        assert (name, status) == ("AgentError", 7)
        assert "ran untraced" in text
        assert len(untraced) == 1


def test_a_program_that_ignores_its_children_can_trace() -> None:
    body = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
found = []

def some():
    for _ in range(5):
        found.append(calls(command))

threads = [threading.Thread(target=some) for _ in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
with open("/proc/self/status") as file:
    ignored = [int(line.split()[1], 16) for line in file if line.startswith("SigIgn")][0]
try:
    os.waitpid(-1, os.WNOHANG)
    left = True
except ChildProcessError:
    left = False
child = os.fork()
if not child:
    os._exit(0)
try:
    os.waitpid(child, 0)
    kept = True
except ChildProcessError:
    kept = False
say([found, bool(ignored >> (signal.SIGCHLD - 1) & 1), left, kept])
"""
    assert said(body, *ten_calls()) == [[[10, 7]] * 15, True, False, False]


def test_the_command_still_ignores_them_too() -> None:
    body = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with soscope.trace(command, select="malloc") as run:
    list(run)
say(run.exit_status)
"""
    assert said(body, "grep", "-q", "^SigIgn:.*1....$", "/proc/self/status") == 0


def test_an_iterator_alone_starts_and_ends_the_command() -> None:
    body = """
run = soscope.trace(command, select="f0")
found = [sum(1 for _ in run), run.exit_status, sum(1 for _ in run)]
one = next(iter(soscope.trace(command, select="f0"))).symbol
with soscope.trace(command, select="f0") as run:
    pass
say([*found, one, sum(1 for _ in run) <= 10, run.exit_status])
"""
    assert said(body, *ten_calls()) == [10, 7, 0, "f0", True, 7]


@pytest.mark.parametrize("command", ["ls -l", b"ls", [], ["ls", 3]])
def test_what_is_no_list_of_words_is_said(command: object) -> None:
    with pytest.raises(TypeError):
        soscope.trace(command)  # type: ignore[arg-type]  # the error that is wanted


def test_no_python_warns_of_the_fork() -> None:
    """Python 3.12 and later would."""
    python = (sys.executable, "-W", "always")
    assert said("say(calls(command))", *ten_calls(), python=python) == [10, 7]


def test_the_program_of_a_user_may_be_started_in_a_pipe() -> None:
    """Nothing of soscope's holds a pipe open when the command has ended."""
    body = "calls(command); print('[1]')"
    script = HEAD + "command = sys.argv[1:]\n" + body
    done = subprocess.run(
        [sys.executable, "-c", script, "/bin/true"],
        env=launching.environment(),
        capture_output=True,
        text=True,
        timeout=limit(),
        check=True,
    )
    assert done.stdout == "[1]\n"


def test_a_command_runs_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    """Its PATH finds the command, as that of subprocess.Popen does; so does the directory."""
    (tmp_path / "program").write_text("#!/bin/sh\npwd\nenv\n")
    (tmp_path / "program").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "X": "a=b"}
    ways = [(["program"], "/"), (["./program"], str(tmp_path)), (["env", "-u", "LANG"], "/usr")]
    for words, cwd in ways:
        body = f"""
soscope.trace({words!r}, select="write", cwd={cwd!r}, env={env!r}).wait()
"""
        done = run(
            [sys.executable, "-c", HEAD + body], env=launching.environment(), timeout=limit(120)
        )
        assert (done.returncode, done.stderr) == (0, "")
        wanted = subprocess.run(
            words, cwd=cwd, env=env, capture_output=True, text=True, timeout=limit(), check=True
        )
        assert done.stdout == wanted.stdout


def test_a_directory_that_is_none_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for cwd, reason in (("/no/such", "no such file or directory"), (file, "not a directory")):
        with pytest.raises(soscope.SoscopeError, match=f"cannot run 'ls' in '{cwd}': {reason}"):
            soscope.trace(["ls"], cwd=cwd).wait()


def test_calls_are_recorded_and_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.sosr"
    body = f"""
with soscope.trace(command, select="f0", record={str(path)!r}) as run:
    seen = [call.symbol for call in run]
    while_it_ran = run.outcome
with soscope.open({str(path)!r}) as recording:
    say([seen, len(recording.calls), run.outcome.status, run.outcome.record, while_it_ran is None])
"""
    assert said(body, *ten_calls()) == [["f0"] * 10, 10, 7, str(path), False]


def test_a_summary_has_rows_and_no_calls() -> None:
    body = """
run = soscope.trace(command, select="f0", summary=True)
before = run.summary()
run.wait()
say([before, [[row.symbol, row.calls, row.total_ns > 0] for row in run.summary()], list(run)])
"""
    assert said(body, *ten_calls()) == [[], [["f0", 10, True]], []]


def test_nobody_has_to_read_the_calls(tmp_path: Path) -> None:
    """More than may wait for a reader: the command would stand still."""
    path = tmp_path / "run.sosr"
    body = f"""
outcome = soscope.trace(command, select="f0", record={str(path)!r}).wait()
with soscope.open({str(path)!r}) as recording:
    say([outcome.status, len(recording.calls)])
"""
    command = tracing.program(Case("told", ("last", "30000", "6")))
    assert said(body, *command) == [7, 30000]


def test_a_process_is_observed_and_let_go_of() -> None:
    with attached.running([str(build.program("writes"))], ready="") as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(count: int) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        assert ask(1) == 1
        before = attached.snapshot(process.pid)
        found = []
        with soscope.trace(pid=process.pid, select="write") as trace:
            assert ask(20) == 21
            for call in trace:
                found.append((call.symbol, call.result.value if call.result else None))
                if len(found) == 20:
                    break
        assert found == [("write", 1)] * 20
        assert trace.outcome is not None
        assert [one.pid for one in trace.outcome.attached] == [process.pid]
        assert attached.differences(before, process.pid) == []
        assert ask(4) == 25
        outcome = soscope.trace(pid=[process.pid], select="write", duration=0.5).wait()
        assert outcome.stopped == "duration"


@pytest.mark.parametrize(
    "said_to",
    [{}, {"command": ["ls"], "pid": 1}, {"pid": 1, "cwd": "/"}, {"pid": 1, "env": {}}, {"pid": []}],
)
def test_what_makes_no_sense_together_is_said(said_to: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        soscope.trace(**said_to)


def test_a_process_that_was_closed_says_so() -> None:
    process = soscope.Process(os.getpid())
    process.close()
    process.close()
    for ask in (
        lambda: process.resolve("malloc"),
        lambda: process.answer("malloc"),
        lambda: list(process.answers(["malloc"] * 20)),
        lambda: process.locate(4096),
        lambda: process.locate_all([4096]),
        lambda: process.images,
        lambda: process.threads,
        process.bindings,
        lambda: process.read(4096, 8),
    ):
        with pytest.raises(soscope.SoscopeError, match=f"process {os.getpid()} has been closed"):
            ask()


def test_a_trace_shows_how_far_it_is() -> None:
    body = """
run = soscope.trace(["sh", "-c", ": a"], select="malloc", from_="all")
states = [repr(run)]
with run:
    states.append(repr(run))
    run.wait()
states.append(repr(run))
say([states, run.outcome.calls])
"""
    (begun, running, ended), count = said(body)
    assert begun == "<trace of sh -c : a: not begun>"
    assert running.startswith("<trace of sh -c : a: ")
    assert ended == f"<trace of sh -c : a: ended, {count:,} calls>"
