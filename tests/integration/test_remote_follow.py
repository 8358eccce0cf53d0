# SPDX-License-Identifier: Apache-2.0
"""Children of a program that a stub holds, followed: each call is its own process's.

The programs count their own calls, process by process, and check how their children end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.test_native_follow import WAYS, called, counted, events
from tests.support import build
from tests.support.elffiles import built
from tests.support.launching import environment
from tests.support.run import kill, soscope
from tests.support.waiting import Waiting, gdbserver

ENGINES = ("poison", "sites")


def _trace(stub: Waiting, *words: str | Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """Trace a stub's program with its children; return that, and what the program has written."""
    done = soscope("trace", "-f", *words, "--remote", stub.address)
    out, _ = stub.process.communicate(timeout=30)
    return done, out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("ways", "processes", "executed"), WAYS)
def test_each_call_is_its_own_process_s(
    ways: list[str], processes: int, executed: int, engine: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    words = ("--engine", engine, "--json", "-o", path, "-e", "labs", "-x", "unit")
    with gdbserver(build.program("lineage"), *ways, stdout=subprocess.PIPE) as stub:
        done, out = _trace(stub, *words)
    assert done.returncode == 7, done.stderr
    said, trace = counted(out), events(path)
    assert called(trace, "labs") == said
    assert called(trace, "unit") == said
    assert "; complete" in done.stderr
    kinds = Counter(each["event"] for each in trace if each["type"] == "process")
    forks = [each for each in trace if each["type"] == "process" and each["event"] == "fork"]
    assert kinds["start"] == 1
    assert kinds["exec"] == executed
    assert len(forks) + 1 == processes
    assert len({each["pid"] for each in forks}) == len(forks)
    known = {each["pid"] for each in trace if each["type"] == "process"}
    assert {each["parent"] for each in forks} <= known
    assert set(said) <= known
    ends = [each["pid"] for each in trace if each["type"] == "exit"]
    assert Counter(ends) == Counter(known)
    firsts: dict[int, str] = {}
    for each in trace:
        firsts.setdefault(each["pid"], each["type"])
    assert set(firsts.values()) == {"process"}
    assert {each["engine"] for each in trace if each["type"] == "process"} == {engine}


def test_how_children_end(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    with gdbserver(build.program("lineage"), "dying", "nested", stdout=subprocess.PIPE) as stub:
        done, out = _trace(stub, "--json", "-o", path, "-e", "labs")
    assert done.returncode == 7, done.stderr
    said, trace = counted(out), events(path)
    ends = {
        each["pid"]: (each["status"], each["signal"]) for each in trace if each["type"] == "exit"
    }
    by_signal = {said[pid]: how[1] for pid, how in ends.items() if how[1]}
    assert by_signal == {5: "SIGTERM", 1: "SIGKILL"}
    assert sorted(how[0] for how in ends.values() if how[0] is not None) == [1, 2, 3, 3, 4, 5, 7]
    told = {each["signal"] for each in trace if each["type"] == "signal"}
    assert {"SIGTERM", "SIGCHLD"} <= told


def test_an_agent_sees_the_same(tmp_path: Path) -> None:
    """What agents count in all programs of a pipeline, a stub's breakpoints count, too."""
    table, script = tmp_path / "table.json", "ls / | sort | wc -l"
    names = "setlocale,textdomain,qsort,fork,execve,opendir"
    words = ("-c", "--json", "-o", table, "-e", names)
    tables = []
    done = soscope("trace", "-f", *words, "--", "sh", "-c", script)
    for engine in ("", *ENGINES):
        if engine:
            with gdbserver("/bin/sh", "-c", script, stdout=subprocess.PIPE) as stub:
                done, _ = _trace(stub, "--engine", engine, *words)
        assert done.returncode == 0, done.stderr
        tables.append(
            {
                (row["caller"], row["symbol"]): row["calls"]
                for row in json.loads(table.read_text())["rows"]
            }
        )
    assert tables[0] == tables[1] == tables[2]
    assert {caller for caller, _ in tables[0]} >= {"ls", "sort", "wc"}


# Children that wait, in its group and outside, and one that calls: each ends with 3 at SIGUSR1.
_WAITING = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t is_told;
static void tell(int number)
{
    (void)number;
    is_told = 1;
}
int main(void)
{
    int wrong = 0, status;
    pid_t pids[4];
    sigset_t told, before;
    alarm(60);
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, &before);
    signal(SIGUSR1, tell);
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        alarm(60);
        if (i == 1)
            setsid();
        wrong += labs(-3) != 3;
        if (i == 2) {
            sigprocmask(SIG_SETMASK, &before, NULL);
            while (!is_told) {
                wrong += labs(-4) != 4;
                usleep(100);
            }
        }
        while (!is_told)
            sigsuspend(&before);
        wrong += labs(-5) != 5;
        _exit(wrong ? 4 : 3);
    }
    puts("ready");
    fflush(stdout);
    while (!is_told)
        sigsuspend(&before);
    for (int i = 0; i < 4; i++) {
        kill(pids[i], SIGUSR1);
        wrong += waitpid(pids[i], &status, 0) != pids[i] || status != 3 << 8;
    }
    printf("wrong %d", wrong);
    return 7;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["duration", "interrupt"])
@pytest.mark.parametrize("seen", ["labs", "setsid"])
def test_all_are_let_go_of(how: str, engine: str, seen: str, tmp_path: Path) -> None:
    """Whether one of them stops by itself meanwhile, as it calls what is seen, or none does."""
    program = built(tmp_path, "waiting", _WAITING, "-fno-builtin")
    options = ["--duration", "300ms"] if how == "duration" else []
    words = ["trace", "-f", "-c", "--engine", engine, "-e", seen, *options]
    with gdbserver(program, stdout=subprocess.PIPE) as stub:
        tracing = subprocess.Popen(
            [sys.executable, "-m", "soscope", *words, "--remote", stub.address],
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        try:
            assert stub.process.stdout is not None
            assert stub.process.stdout.readline() == "ready\n"
            if how == "interrupt":
                time.sleep(0.3)
                tracing.send_signal(signal.SIGINT)
            _, said = tracing.communicate(timeout=30)
            assert tracing.returncode == 0, said
        finally:
            kill(tracing)
        os.kill(stub.pid, signal.SIGUSR1)
        assert stub.process.stdout.read() == "wrong 0"
