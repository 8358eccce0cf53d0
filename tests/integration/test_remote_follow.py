# SPDX-License-Identifier: Apache-2.0
"""Children of a program that a stub holds, followed: each call is its own process's.

The programs count their own calls, process by process, and check how their children end.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.test_native_follow import _FORKING, WAYS, called, counted, events
from tests.support.files.elffiles import built
from tests.support.machines import crossed
from tests.support.machines.gdbstubs import Waiting, emulator, gdbserver
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import kill, soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched, waits_in

ENGINES = ("poison", "sites")
_READ, _RT_SIGSUSPEND = 0, 130  # numbers of system calls on x86-64


def _trace(stub: Waiting, *words: str | Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """Trace a stub's program with its children; return that, and what the program has written."""
    done = soscope("trace", "-f", *words, "--remote", stub.address)
    out, _ = stub.process.communicate(timeout=limit())
    return done, out


@pytest.mark.every(5)
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
    assert is_whole(done.stderr)
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
    assert trace[-1]["type"] == "cost"
    for each in trace[:-1]:
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


# Waits for a byte first, with an argument. Its children wait, in its group and outside, or call:
# each ends with 3 at SIGUSR1.
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
int main(int argc, char **argv)
{
    int wrong = 0, status;
    pid_t pids[4];
    (void)argv;
    if (argc > 1) {
        puts("waits");
        fflush(stdout);
        getchar();
    }
    sigset_t told, before;
    alarm(600);
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    sigprocmask(SIG_BLOCK, &told, &before);
    signal(SIGUSR1, tell);
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        alarm(600);
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


@pytest.mark.covering(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["duration", "interrupt"])
@pytest.mark.parametrize("seen", ["labs", "setsid"])
def test_all_are_let_go_of(how: str, engine: str, seen: str, tmp_path: Path) -> None:
    """Whether one of them stops by itself meanwhile, as it calls what is seen, or none does."""
    program = built(tmp_path, "waiting", _WAITING, "-fno-builtin")
    words = ["-c", "--engine", engine, "-e", seen]
    if how == "interrupt":
        assert _were_all_there(program, *words)
        return
    # however late they come: then it takes a longer time
    assert any(
        _were_all_there(program, *words, "--duration", seconds) for seconds in ("1s", "10s", "100s")
    )


def _were_all_there(program: Path, *options: str) -> bool:
    """Trace it, and let it go on; return whether all its children were there when that ended."""
    words = ["trace", "-f", *options]
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
            _wait_for_children(stub.pid)
            are_there = tracing.poll() is None
            if "--duration" not in options:
                tracing.send_signal(signal.SIGINT)
            _, said = tracing.communicate(timeout=limit(180))  # the longest duration, and more
            assert tracing.returncode == 0, said
        finally:
            kill(tracing)
        os.kill(stub.pid, signal.SIGUSR1)
        assert stub.process.stdout.read() == "wrong 0"
    return are_there


@contextlib.contextmanager
def _leading(program: Path, *words: str, ready: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a group of its own, as gdbserver stops groups, until the end of the block.

    It has printed `ready` when that begins.
    """
    with subprocess.Popen(
        [str(program), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == ready
            yield process
        finally:
            kill(process)


@pytest.mark.covering(1)
@pytest.mark.parametrize("seen", ["labs", "setsid"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_who_ran_already_goes_on(seen: str, end: signal.Signals, tmp_path: Path) -> None:
    """Also when soscope is killed: it and all its children, whether they call or not."""
    program = built(tmp_path, "waiting", _WAITING, "-fno-builtin")
    table = tmp_path / "table"
    words = ["trace", "-f", "-c", "-e", seen, "-o", str(table)]
    with (
        _leading(program, "first", ready="waits\n") as process,
        gdbserver("--attach", str(process.pid)) as stub,
    ):
        tracing = subprocess.Popen(
            [sys.executable, "-m", "soscope", *words, "--remote", stub.address],
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert tracing.stderr is not None
            assert "engine sites" in tracing.stderr.readline()
            until(waits_in(process.pid, _READ), "it reads again", running=tracing)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            _wait_for_children(process.pid)
            tracing.send_signal(end)
            _, said = tracing.communicate(timeout=limit())
            assert tracing.returncode == (0 if end == signal.SIGINT else -end), said
        finally:
            kill(tracing)
        assert stub.process.wait(limit()) == 0
        children = _children(process.pid)
        assert len(children) == 4
        assert {attached.tracer_of(pid) for pid in (process.pid, *children)} == {0}
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.read() == "wrong 0"
        assert process.wait(limit()) == 7


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _wait_for_children(pid: int) -> None:
    """Wait until three of the four children wait for their signal, and one calls and calls."""
    until(lambda: len(_children(pid)) == 4, "four children")
    first, second, calling, last = _children(pid)
    for child in (first, second, last):
        until(waits_in(child, _RT_SIGSUSPEND), "a child waits")
    until(has_switched(calling, 20), "a child goes on calling")


_BESIDE = """
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define MAKERS 2
#define TIMES 12
extern char **environ;
static volatile int is_over;
static long calls[MAKERS + 1], children, wrong;
static char *words[] = {"true", NULL};
static void expect(pid_t pid, int code)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || status != code << 8)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
}
static void *calling(void *unused)
{
    while (!is_over) {
        calls[MAKERS] += labs(-1);
        usleep(200);
    }
    return unused;
}
static void *making(void *own)
{
    long *count = own;
    for (int i = 0; i < TIMES; i++) {
        pid_t pid = vfork();
        if (!pid) {
            __atomic_add_fetch(&children, labs(-1) + labs(-2) - 1, __ATOMIC_SEQ_CST);
            if (i % 3 == 1)
                execv("/bin/true", words);
            if (i % 3 == 2)
                kill(getpid(), 9);
            _exit(3);
        }
        if (i % 3 == 2) {
            int status;
            if (waitpid(pid, &status, 0) != pid || status != 9)
                __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
        } else {
            expect(pid, i % 3 ? 0 : 3);
        }
        *count += labs(-1);
        pid = fork();
        if (!pid)
            _exit((int)labs(-4));
        __atomic_add_fetch(&children, 1, __ATOMIC_SEQ_CST);
        expect(pid, 4);
        if (posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ))
            __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
        else
            expect(pid, 0);
    }
    return NULL;
}
int main(void)
{
    pthread_t other, makers[MAKERS];
    pthread_create(&other, NULL, calling, NULL);
    for (int i = 0; i < MAKERS; i++)
        pthread_create(&makers[i], NULL, making, &calls[i]);
    for (int i = 0; i < MAKERS; i++)
        pthread_join(makers[i], NULL);
    is_over = 1;
    pthread_join(other, NULL);
    for (int i = 0; i < MAKERS; i++)
        calls[MAKERS] += calls[i];
    printf("%d %ld %ld %ld", getpid(), calls[MAKERS], children, wrong);
    return 7;
}
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_make_children_beside_others_that_call(engine: str, tmp_path: Path) -> None:
    program = built(tmp_path, "beside", _BESIDE, "-O0", "-fno-builtin", "-pthread", "-Wl,-z,lazy")
    path = tmp_path / "calls.json"
    words = ("--engine", engine, "--json", "-o", path, "-e", "labs,vfork")
    with gdbserver(program, stdout=subprocess.PIPE) as stub:
        done, out = _trace(stub, *words)
    assert done.returncode == 7, done.stderr
    pid, own, children, wrong = map(int, out.split())
    assert wrong == 0
    calls = called(events(path), "labs")
    assert calls.pop(pid) == own
    assert calls.total() == children
    assert called(events(path), "vfork") == {pid: 2 * 12}
    assert is_whole(done.stderr)


_SURVIVING = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status, both[2];
    long sum = 0, size;
    char byte = 0;
    if (pipe(both))
        return 1;
    pid_t parent = fork();
    if (!parent) {
        if (!vfork()) {
            kill(getppid(), SIGKILL);
            for (int i = 1; i <= 3; i++)
                sum += labs(-i);
            byte = sum == 6 ? 'y' : 'n';
            _exit(write(both[1], &byte, 1) != 1);
        }
        _exit(1);
    }
    close(both[1]);
    waitpid(parent, &status, 0);
    size = read(both[0], &byte, 1);
    printf("%ld %c %d", size, byte, status);
    return 7;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_child_of_vfork_whose_parent_is_killed(engine: str, tmp_path: Path) -> None:
    """It goes on alone in the memory that was its parent's."""
    program = built(tmp_path, "surviving", _SURVIVING, "-O0", "-fno-builtin")
    path = tmp_path / "calls.json"
    words = ("--engine", engine, "--json", "-o", path, "-e", "labs")
    with gdbserver(program, stdout=subprocess.PIPE) as stub:
        done, out = _trace(stub, *words)
    assert (done.returncode, out) == (7, "1 y 9"), done.stderr
    trace = events(path)
    child = [each["pid"] for each in trace if each.get("event") == "fork"][-1]
    assert called(trace, "labs") == {child: 3}
    assert is_whole(done.stderr)


# ---- stubs that cannot do it -------------------------------------------------


@contextlib.contextmanager
def _without(word: bytes, stub: Waiting) -> Iterator[str]:
    """Give the address of a stub that is another one, but does not offer what `word` names."""
    with socket.create_server(("localhost", 0)) as server:
        host, _, port = stub.address.partition(":")
        proxy = threading.Thread(target=_pass_on, args=(server, (host, int(port)), word))
        proxy.start()
        yield f"localhost:{server.getsockname()[1]}"
        proxy.join(limit())
        assert not proxy.is_alive()


def _pass_on(server: socket.socket, to: tuple[str, int], word: bytes) -> None:
    server.settimeout(limit())
    with server.accept()[0] as front, socket.create_connection(to) as back:
        while ready := select.select([front, back], [], [], limit())[0]:
            for source in ready:
                data = source.recv(1 << 16)
                if not data:
                    return
                if source is back and word in data:
                    packet = data[data.index(b"$") + 1 : data.rindex(b"#")].replace(word, b"")
                    data = b"+$%s#%02x" % (packet, sum(packet) & 0xFF)
                (back if source is front else front).sendall(data)


@pytest.mark.parametrize("word", ["vfork-events", "exec-events"])
def test_a_stub_that_tells_too_little(word: str) -> None:
    with gdbserver(build.program("lineage"), "sharing", stdout=subprocess.PIPE) as stub:
        with _without(b"%s+;" % word.encode(), stub) as address:
            done = soscope("trace", "-f", "--remote", address)
        out, _ = stub.process.communicate(timeout=limit())
    assert done.returncode == 125
    said = f"-f: the stub does not offer {word}: children cannot be followed"
    assert said in done.stderr
    assert counted(out).total() == 13


def test_an_emulator(tmp_path: Path) -> None:
    """Its stub tells of no children: the program is let go of, and they are clean."""
    path = crossed.program(tmp_path, "ppc64le")
    plain = crossed.untraced(path, "ppc64le", "plain", "forks")
    with emulator("ppc64le", path, "plain", "forks") as stub:
        done = soscope("trace", "-f", "--remote", stub.address, "--", path)
        out, err = stub.process.communicate(timeout=limit())
    assert done.returncode == 125
    assert "-f: the stub does not offer fork-events, vfork-events, exec-events" in done.stderr
    assert (stub.process.returncode, out, err) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--check"], "-f: not with --check, which compares the calls of one process"),
        (["--engine", "slot"], "-f: not over --remote with --engine slot"),
    ],
)
def test_usage(words: list[str], why: str) -> None:
    with gdbserver("/bin/true") as stub:
        done = soscope("trace", "-f", *words, "--remote", stub.address)
        assert stub.process.wait(limit()) == 0
    assert done.returncode == 125
    assert why in done.stderr


def _has_call(log: Path) -> bool:
    return log.exists() and "labs(" in log.read_text()


@pytest.mark.parametrize("times", sizes(1, 3))
def test_all_are_let_go_of_while_they_fork(times: int, tmp_path: Path) -> None:
    # a child from before that is in the group of its parent would end by the stub's SIGINT
    apart = "if (!staying) {\n        setsid();"
    text = _FORKING.replace("if (!staying) {", apart)
    program = built(tmp_path, "forking", text, "-fno-builtin")
    with _leading(program, ready="ready\n") as process:
        before = attached.snapshot(process.pid)
        for number, end in enumerate((signal.SIGINT, signal.SIGKILL) * times):
            log = tmp_path / f"log{number}"
            words = ["trace", "-f", "-e", "labs", "-o", str(log)]
            with gdbserver("--attach", str(process.pid)) as stub:
                tracing = subprocess.Popen(
                    [sys.executable, "-m", "soscope", *words, "--remote", stub.address],
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment(),
                )
                try:
                    assert tracing.stderr is not None
                    assert "engine sites" in tracing.stderr.readline()
                    until(partial(_has_call, log), "a call is seen", running=tracing)
                    until(has_switched(process.pid, 30), "it forks", running=tracing)
                    tracing.send_signal(end)
                    _, said = tracing.communicate(timeout=limit())
                    assert tracing.returncode == (0 if end == signal.SIGINT else -end), said
                finally:
                    kill(tracing)
                assert stub.process.wait(limit()) == 0
            assert attached.differences(before, process.pid) == [], stub.said()
            assert attached.tracer_of(process.pid) == 0
        out, _ = process.communicate("end\n", timeout=limit())
        assert (process.returncode, out) == (7, "wrong 0")
