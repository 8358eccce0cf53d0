# SPDX-License-Identifier: Apache-2.0
"""`trace -p PID -f`: children and executed programs of a running process, as with a command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soscope.control.attach import attach
from soscope.control.blocks import Blocks
from soscope.control.program import Program, SessionEvents
from soscope.control.settings import Hooks, Instrument, SessionSettings
from soscope.model.call import ProcessStart
from soscope.prototypes import load
from soscope.recording.reader import RecordingFile
from soscope.select.filter import compile_selection
from soscope.wire import layout
from tests.support.machines.tools import namespaces, need
from tests.support.processes import attached
from tests.support.processes.launching import compiled, environment
from tests.support.processes.leftovers import at_end
from tests.support.processes.others import drop
from tests.support.processes.run import soscope
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_grown, has_run, state
from tests.support.truth.recorded import by_columns

# Does what a line says: threads, forks and execs, each of which says what it did.
_FAMILY = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

static void work(int times)
{
	for (int i = 0; i < times; i++)
		sink += abs(i - 5);
}

static void *thread(void *argument)
{
	work(100);
	if (argument)
		execl(argument, "family", "leaf", "1000", NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	char line[64], *words[] = {"family", "leaf", "10000", NULL};
	pthread_t other;
	int status;
	pid_t child;

	if (argc > 2 && !strcmp(argv[1], "leaf")) {
		work(atoi(argv[2]));
		return 5;
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		work(1);
		status = 0;
		if (!strcmp(line, "fork\n")) {
			child = fork();
			if (!child) {
				work(10);
				_exit(3);
			}
			waitpid(child, &status, 0);
		} else if (!strcmp(line, "spawn\n")) {
			posix_spawn(&child, argv[0], NULL, NULL, words, environ);
			waitpid(child, &status, 0);
		} else if (!strcmp(line, "thread\n")) {
			pthread_create(&other, NULL, thread, NULL);
			pthread_join(other, NULL);
		} else if (!strcmp(line, "exec\n")) {
			execl(argv[0], "family", "leaf", "100000", NULL);
		} else if (!strcmp(line, "threadexec\n")) {
			pthread_create(&other, NULL, thread, argv[0]);
			pthread_join(other, NULL);
		} else if (!strcmp(line, "end\n")) {
			return 7;
		}
		printf("%d\n", status >> 8);
		fflush(stdout);
	}
	return 1;
}
"""


def family() -> Path:
    return compiled("family.c", "-fno-builtin", text=_FAMILY)


@contextmanager
def tracing(pid: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Trace a process with -f; the block begins when it is followed."""
    tracer = subprocess.Popen(
        attached.words(pid, "-f", *options),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        attached.wait_until("memfd:soscope", pid)
        attached.wait_for_helper(tracer.pid, pid)
        yield tracer
    finally:
        tracer.kill()
        tracer.communicate(timeout=limit())


def say(process: subprocess.Popen[str], line: str) -> str:
    """Let the program do something, and return what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def finished(tracer: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    """End a trace; return its notes."""
    tracer.send_signal(number)
    _, text = tracer.communicate(timeout=limit())
    assert tracer.returncode == 0, text
    return text


def calls_of(document: Path) -> int:
    rows = json.loads(document.read_text())["rows"]
    return sum(row["calls"] for row in rows if row["symbol"] == "abs")


def test_calls_of_all_that_it_starts_are_counted(tmp_path: Path) -> None:
    output = tmp_path / "table.json"
    with attached.running([family()]) as process:
        before = attached.snapshot(process.pid)
        with tracing(process.pid, "-c", "-e", "abs@MAIN", "--json", "-o", str(output)) as tracer:
            assert say(process, "thread") == "0\n"
            assert say(process, "fork") == "3\n"
            assert say(process, "spawn") == "5\n"
            assert say(process, "spawn") == "5\n"
            notes = finished(tracer)
        assert calls_of(output) == 4 + 100 + 10 + 2 * 10_000, notes + output.read_text()
        assert attached.tracer_of(process.pid) == 0
        assert attached.differences(before, process.pid) == []
        assert say(process, "fork") == "3\n"
        assert attached.finish(process) == (7, "", "")


class _Told(SessionEvents):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        self.events.append(event)


def test_a_file_that_is_replaced_is_no_exec(tmp_path: Path) -> None:
    """An upgrade may come when the agent is in, and nobody traces the process yet."""
    program, other = (Path(shutil.copy(family(), tmp_path / name)) for name in ("is", "will be"))
    counting, told = Instrument(), _Told()
    counting.hooks = Hooks(layout.INSTRUMENT_COUNT, compile_selection(["abs"], ["MAIN"]), load())
    with attached.running([program]) as process:
        blocks = Blocks(SessionSettings(["true"], follow=True), [counting])
        target = attach(process.pid, blocks.make, events=told)
        try:
            other.replace(program)
            target.follow({})
            assert say(process, "fork") == "3\n"
            assert say(process, "spawn") == "5\n"
        finally:
            target.close()
        held = [started.block for started in target.programs]
        for block in filter(None, held):
            at_end(block.close)
        assert [sum(block.counts().values()) for block in held if block] == [12, 10_000]
        assert told.events == ["start", "fork", "fork", "exec"]
        assert attached.finish(process) == (7, "", "")


@pytest.mark.parametrize("how", ["exec", "threadexec"])
def test_what_it_executes_itself_is_followed(how: str, tmp_path: Path) -> None:
    """Also by another thread than the first; soscope ends when it ends, and knows how."""
    output = tmp_path / "table.json"
    with attached.running([family()]) as process:
        with tracing(process.pid, "-c", "-e", "abs@MAIN", "--json", "-o", str(output)) as tracer:
            assert say(process, how) == ""
            assert process.wait(limit()) == 5
            _, notes = tracer.communicate(timeout=limit())
            assert tracer.returncode == 0, notes
        assert "has executed" not in notes
        document = json.loads(output.read_text())
        assert document["exit"] == {"status": 5, "signal": None}
        assert calls_of(output) == {"exec": 1 + 100_000, "threadexec": 1 + 100 + 1000}[how]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace a process of somebody else")
@pytest.mark.parametrize("how", ["user", "namespace"])
def test_programs_that_can_open_none_of_our_files(how: str, public_path: Path) -> None:
    """Their control blocks are made in them, and come to soscope by way of its helper."""
    program = shutil.copy(family(), public_path / "family")
    output = public_path / "table.json"
    words = drop() if how == "user" else namespaces("--pid", "--fork", "--kill-child")
    with attached.running([*words, program]) as process:
        pid = process.pid
        if how == "namespace":
            [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pid = int(child)
        before = attached.snapshot(pid)
        with tracing(pid, "-c", "-e", "abs@MAIN", "--json", "-o", str(output)) as tracer:
            assert say(process, "spawn") == "5\n"
            assert say(process, "fork") == "3\n"
            notes = finished(tracer)
        assert "untraced" not in notes
        assert calls_of(output) == 2 + 10_000 + 10
        assert attached.differences(before, pid) == []
        assert attached.finish(process) == (7, "", "")


def test_the_recording_has_all_processes(tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    with attached.running([family()]) as process:
        with tracing(process.pid, "-e", "abs@MAIN", "--record", str(record)) as tracer:
            assert say(process, "fork") == "3\n"
            assert say(process, "spawn") == "5\n"
            assert say(process, "exec") == ""
            tracer.communicate(timeout=limit())
        assert process.wait(limit()) == 5
    with RecordingFile.open(record) as found:
        assert not found.damage
        told = [
            (event.event, event.pid == process.pid)
            for event in found.events
            if isinstance(event, ProcessStart)
        ]
    assert told == [("start", True), *[("fork", False)] * 2, ("exec", False), ("exec", True)]
    calls = dict(by_columns(record).by_process)
    assert calls.pop((process.pid, "abs")) == 3 + 100_000
    assert sorted(calls.values()) == [10, 10_000]


def test_the_lines_are_those_of_a_command(tmp_path: Path) -> None:
    """A shell that runs things, and becomes another program in the end."""
    script = "echo ready; read line; /bin/true; (exit 3); exec cat"
    output = tmp_path / "lines"
    with attached.running([need("dash"), "-c", script]) as process:
        options = ["-e", "write@MAIN,fork@MAIN,vfork@MAIN", "-o", str(output)]
        with tracing(process.pid, *options) as tracer:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            cat = os.path.realpath(need("cat"))
            executed = f"/proc/{process.pid}/exe"
            until(lambda: os.readlink(executed) == cat, "the shell has executed cat")
            assert attached.finish(process) == (0, "end\n", "")
            _, notes = tracer.communicate(timeout=limit())
            assert tracer.returncode == 0, notes
    text = output.read_text()
    assert "+++ exited (status 3) +++" in text
    assert "+++ exited (status 0) +++" in text
    assert 'write(1, "end' in text


def thrice(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return [say(process, "go"), process.stdout.readline(), process.stdout.readline()]


def test_a_python_that_starts_programs(tmp_path: Path) -> None:
    text = (
        "import subprocess, sys, threading\nprint('ready', flush=True)\n"
        "def go():\n"
        "    code = subprocess.run([sys.argv[1], 'leaf', '10']).returncode\n"
        "    sys.stdout.write(f'{code}\\n')\n"
        "while sys.stdin.readline() == 'go\\n':\n"
        "    threads = [threading.Thread(target=go) for _ in range(3)]\n"
        "    for one in threads: one.start()\n"
        "    for one in threads: one.join()\n"
        "    sys.stdout.flush()\n"
        "print('end')\n"
    )
    output = tmp_path / "table.json"
    now = [need("env"), "LD_BIND_NOW=1"]  # what is bound meanwhile is no difference
    with attached.running([*now, need("python3"), "-c", text, family()]) as process:
        before = attached.snapshot(process.pid)
        with tracing(process.pid, "-c", "-e", "abs@family", "--json", "-o", str(output)) as tracer:
            assert thrice(process) == ["5\n"] * 3
            finished(tracer)
        rows = json.loads(output.read_text())["rows"]
        assert [(row["caller"], row["calls"]) for row in rows] == [("family", 30)]
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (0, "end\n", "")


def test_children_that_live_on_are_let_go_of(tmp_path: Path) -> None:
    """Forked ones and executed ones; what was changed in them is put back."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    start = f"exec 3<>{fifo}; {build.program('attached')} 2 <&3 >&2 &"
    script = f"echo ready; read line; {start} echo $!; wait; exit 7"
    with attached.running([need("bash"), "-c", script]) as process:
        before = attached.snapshot(process.pid)
        with tracing(process.pid, "-c", "--from", "all") as tracer:
            child = int(say(process, "go"))
            assert process.stderr is not None
            assert process.stderr.readline() == "ready\n"  # by the child
            until(has_run(child), "the child makes calls")
            text = finished(tracer)
        assert "memset" in text  # which bash does not call thus often
        assert attached.tracer_of(child) == attached.tracer_of(process.pid) == 0
        assert attached.differences(before, process.pid) == []
        done = attached.detach(child)
        assert "does nothing" in done.stdout, done.stdout + done.stderr
        os.kill(child, signal.SIGKILL)


@pytest.mark.every(4)
@pytest.mark.parametrize("runs", range(5))
def test_a_killed_soscope_leaves_all_running(runs: int, tmp_path: Path) -> None:
    """Also those that are just being loaded: nobody is killed, nobody stays stopped."""
    text = (
        "import subprocess, sys, select\nprint('ready', flush=True)\nwrong = runs = 0\n"
        "while not select.select([0], [], [], 0)[0]:\n"
        "    runs += 1; wrong += subprocess.run([sys.argv[1], 'leaf', '10']).returncode != 5\n"
        "    with open(sys.argv[2], 'a') as log: log.write('r')\n"
        "print(runs > 0, wrong)\n"
    )
    log = tmp_path / "runs"
    with attached.running([need("python3"), "-c", text, family(), log]) as process:
        with tracing(process.pid, "-c", "-e", "abs@family") as tracer:
            until(has_grown(log, runs), "it runs programs", running=tracer)
            helper = attached.tracer_of(process.pid)
            tracer.kill()
            tracer.communicate(timeout=limit())

        def is_let_go_of() -> bool:
            return not os.path.exists(f"/proc/{helper}") or not attached.tracer_of(process.pid)

        until(is_let_go_of, "soscope's child has ended")
        until(has_grown(log, 3), "it runs programs without soscope")
        assert attached.detach(process.pid).returncode == 0
        assert attached.finish(process) == (0, "True 0\n", "")


RECORDERS = {
    "trace": (["trace", "--record"], ["report", "-c"]),
    "mem": (["mem", "attach", "--blocks", "-o"], ["mem", "report"]),
    "prof": (["prof", "attach", "--boundary", "time", "-o"], ["prof", "report"]),
}


@contextmanager
def recorded(kind: str, pid: int, file: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Record a process; the block begins when it is hooked."""
    words = [sys.executable, "-m", "soscope", *RECORDERS[kind][0], file, "-p", str(pid), *options]
    with subprocess.Popen(
        list(map(str, words)),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            attached.wait_until("memfd:soscope", pid, running=process)
            attached.wait_for_hooks(process)
            yield process
        finally:
            process.kill()


def shown(kind: str, file: Path) -> str:
    """Return all that the report of a recording says."""
    done = soscope(*RECORDERS[kind][1], file)
    assert done.returncode == (kind == "mem"), done.stderr  # sums that are partial end with 1
    return done.stdout + done.stderr


def test_a_killed_helper_is_said() -> None:
    """Nobody sees what is executed from there on."""
    with attached.running([family()]) as process, tracing(process.pid, "-c") as tracer:
        os.kill(attached.wait_for_helper(tracer.pid, process.pid), signal.SIGKILL)
        notes = tracer.communicate(timeout=limit())[1]
        assert "the part of soscope that follows its children was killed" in notes
        assert notes.endswith("; not complete\n")
        assert attached.finish(process)[0] == 7


@pytest.mark.parametrize("kind", RECORDERS)
def test_a_recording_tells_that_the_helper_was_killed(kind: str, tmp_path: Path) -> None:
    file, line = tmp_path / "it.sosr", "the part of soscope that follows its children was killed"
    with attached.running([family()]) as process:
        with recorded(kind, process.pid, file, "-f") as recorder:
            os.kill(attached.wait_for_helper(recorder.pid, process.pid), signal.SIGKILL)
            assert line in recorder.communicate(timeout=limit())[1]
        assert attached.finish(process)[0] == 7
    said = shown(kind, file)
    assert f"process {process.pid}: {line}" in said
    assert kind != "trace" or said.endswith("; not complete\n")


@pytest.mark.parametrize("kind", RECORDERS)
def test_a_recording_tells_what_was_executed_instead(kind: str, tmp_path: Path) -> None:
    file, cat = tmp_path / "it.sosr", os.path.realpath(need("cat"))
    with attached.running([need("dash"), "-c", "echo ready; read line; exec cat"]) as process:
        with recorded(kind, process.pid, file) as recorder:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            notes = recorder.communicate(timeout=limit())[1]
        assert attached.finish(process) == (0, "end\n", "")
    line = f"process {process.pid} has executed {cat}, which is not traced: -f"
    said = shown(kind, file)
    assert line in notes
    assert line in said
    assert kind != "trace" or said.endswith("; not complete\n")
    if kind != "mem":
        assert line in soscope("export", "--format", "folded", "-o", "-", file).stderr


def test_signals_are_passed_on_and_seen(tmp_path: Path) -> None:
    script = "trap 'echo caught' USR1; echo ready; while :; do read line && exit 4; done"
    output = tmp_path / "lines"
    with attached.running([need("bash"), "-c", script]) as process:
        with tracing(process.pid, "-e", "write@MAIN", "-o", str(output)) as tracer:
            process.send_signal(signal.SIGUSR1)
            assert process.stdout is not None
            assert process.stdout.readline() == "caught\n"
            finished(tracer)
        assert "--- SIGUSR1" in output.read_text()
        assert attached.finish(process) == (4, "", "")


def test_stopping_and_going_on_is_as_without_us() -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        with tracing(process.pid, "-c") as tracer:
            process.send_signal(signal.SIGSTOP)
            assert os.waitid(os.P_PID, process.pid, os.WSTOPPED) is not None
            process.send_signal(signal.SIGCONT)
            assert os.waitid(os.P_PID, process.pid, os.WCONTINUED) is not None
            process.send_signal(signal.SIGSTOP)
            assert os.waitid(os.P_PID, process.pid, os.WSTOPPED) is not None
            finished(tracer)
        until(lambda: state(process.pid) == "T", "it is stopped")
        process.send_signal(signal.SIGCONT)
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_without_follow_an_exec_ends_what_can_be_seen() -> None:
    """And which program it was is said."""
    script = "echo ready; read line; exec cat"
    with attached.running([need("dash"), "-c", script]) as process:
        tracer = attached.begin(process.pid, "-c")
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        _, notes = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0
        cat = os.path.realpath(need("cat"))
        assert f"process {process.pid} has executed {cat}, which is not traced: -f" in notes
        assert attached.finish(process) == (0, "end\n", "")


def test_what_takes_no_agent_runs_untraced(tmp_path: Path) -> None:
    source, static = tmp_path / "static.c", tmp_path / "static"
    source.write_text("int main(void) { return 6; }\n")
    made_in(tmp_path, "gcc", "-static", source, "-o", static)
    with attached.running(
        [need("dash"), "-c", f"echo ready; read x; {static}; echo $?; read x"]
    ) as process:
        with tracing(process.pid, "-c") as tracer:
            assert say(process, "go") == "6\n"
            notes = finished(tracer)
        assert f"{static} ran untraced: it is statically linked" in notes
