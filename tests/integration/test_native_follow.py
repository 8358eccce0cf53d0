# SPDX-License-Identifier: Apache-2.0
"""Children of native processes, followed by breakpoints: each call is its own process's.

The programs count their own calls, process by process, and check how their children end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_native_sites import SITES, built_for_i386, rows, traced
from tests.support.files.elffiles import built
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import soscope
from tests.support.processes.tracing import is_whole
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

SAID = re.compile(r"(\d+) has called (\d+) wrong (\d+)")
FOLLOWED = (*SITES, "-f")
# (what the children are made by, how many processes there are, how many programs are executed)
WAYS = [
    (["nested"], 6, 0),
    (["executing", "sharing", "dying", "orphan"], 10, 4),
    (["threads"], 19, 0),
    (["many"], 101, 0),
]


def counted(text: str) -> Counter[int]:
    """Return how often each process says that it has called, where none says that it was wrong."""
    calls: Counter[int] = Counter()
    for line in text.splitlines():
        said = SAID.match(line)
        assert said is not None, line
        assert said[3] == "0", line
        calls[int(said[1])] += int(said[2])
    return +calls


def events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a trace that was written as JSON Lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def called(trace: list[dict[str, Any]], symbol: str) -> Counter[int]:
    """Return how often each process has called a function."""
    return Counter(
        each["pid"] for each in trace if each["type"] == "call" and each["symbol"] == symbol
    )


@pytest.mark.every(2)
@pytest.mark.parametrize(("ways", "processes", "executed"), WAYS)
def test_each_call_is_its_own_process_s(
    ways: list[str], processes: int, executed: int, tmp_path: Path
) -> None:
    path = tmp_path / "calls.json"
    words = ("--json", "-o", path, "-e", "labs", "-x", "unit")
    done = soscope("trace", *FOLLOWED, *words, "--", build.program("lineage"), *ways)
    assert done.returncode == 7, done.stderr
    said, trace = counted(done.stdout), events(path)
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
    assert {each["engine"] for each in trace if each["type"] == "process"} == {"sites"}


def test_how_children_end(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    words = ("--json", "-o", path, "-e", "labs")
    done = soscope("trace", *FOLLOWED, *words, "--", build.program("lineage"), "dying", "nested")
    said, trace = counted(done.stdout), events(path)
    ends = {
        each["pid"]: (each["status"], each["signal"]) for each in trace if each["type"] == "exit"
    }
    calls = {pid: calls for pid, calls in said.items() if pid in ends}
    by_signal = {calls[pid]: how[1] for pid, how in ends.items() if how[1]}
    assert by_signal == {5: "SIGTERM", 1: "SIGKILL"}
    assert sorted(how[0] for how in ends.values() if how[0] is not None) == [1, 2, 3, 3, 4, 5, 7]
    told = {each["signal"] for each in trace if each["type"] == "signal"}
    assert {"SIGTERM", "SIGCHLD"} <= told


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [("-e", "labs"), ("-x", "unit")])
def test_tables_count_all_processes(options: tuple[str, ...], tmp_path: Path) -> None:
    program, ways = build.program("lineage"), ("nested", "sharing", "executing")
    symbol = options[1]
    table, recording = tmp_path / "table.json", tmp_path / "calls.sosr"
    for word in ("-c", "--count-only"):
        words = ("trace", *FOLLOWED, *options, word, "--json", "-o", table, "--")
        done = soscope(*words, program, *ways)
        assert done.returncode == 7, done.stderr
        assert rows(table)[symbol] == counted(done.stdout).total()
    done = soscope("trace", *FOLLOWED, *options, "--record", recording, "--", program, *ways)
    assert soscope("report", recording, "-c", "--json", "-o", table).returncode == 0
    assert rows(table)[symbol] == counted(done.stdout).total()


def test_each_process_has_a_file(tmp_path: Path) -> None:
    words = ("trace", *SITES, "-ff", "-e", "labs", "-o", tmp_path / "calls")
    done = soscope(*words, "--", build.program("lineage"), "nested", "executing")
    written = {
        int(path.suffix[1:]): path.read_text().count("labs(") for path in tmp_path.glob("calls.*")
    }
    assert +Counter(written) == counted(done.stdout)


def test_nobody_notices(tmp_path: Path) -> None:
    """A pipeline's output, status and programs are those that it has without soscope."""
    script = "ls / | sort -r | wc -l; (exit 3); echo $?; kill -TERM $$"
    alone = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    path = tmp_path / "calls.json"
    done = soscope(
        "trace", *FOLLOWED, "--json", "-o", path, "-e", "qsort", "--", "sh", "-c", script
    )
    assert done.stdout == alone.stdout
    assert done.returncode == alone.returncode == -signal.SIGTERM
    trace = events(path)
    executed = [each["program"] for each in trace if each.get("event") in ("start", "exec")]
    shell = os.path.realpath("/bin/sh")
    names = sorted(os.path.basename(each) for each in executed)
    assert names == sorted([os.path.basename(shell), "ls", "sort", "wc"])


def test_an_agent_sees_the_same(tmp_path: Path) -> None:
    """What agents count in all programs of a pipeline, breakpoints count, too."""
    tables = []
    engines: list[tuple[str, ...]] = [(), SITES]
    for engine in engines:
        table = tmp_path / "table.json"
        words = (
            "-c",
            "--json",
            "-o",
            table,
            "-e",
            "setlocale,textdomain,qsort,fork,execve,opendir",
        )
        done = soscope("trace", "-f", *engine, *words, "--", "sh", "-c", "ls / | sort | wc -l")
        assert done.returncode == 0, done.stderr
        tables.append(
            {
                (row["caller"], row["symbol"]): row["calls"]
                for row in json.loads(table.read_text())["rows"]
            }
        )
    assert tables[0] == tables[1]
    assert {caller for caller, _ in tables[0]} >= {"ls", "sort", "wc"}


def test_values_are_those_of_each_process(tmp_path: Path) -> None:
    text = """
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(void)
    {
        char *place = strdup("parent"), c;
        int ends[2], status = pipe(ends);
        pid_t pid = fork();
        if (!pid) {
            close(ends[1]);
            status = read(ends[0], &c, 1); // its parent's fork() has returned
            place[0] = 'P';
            _exit((int)strlen(place) + (int)write(-1, place, 1));
        }
        close(ends[1]);
        waitpid(pid, &status, 0);
        return (int)strlen(place);
    }
    """
    program = built(tmp_path, "two", "#include <string.h>\n" + text, "-O0", "-fno-builtin")
    done = soscope("trace", *FOLLOWED, "-e", "strlen,write,fork", "--", program)
    assert done.returncode == 6
    assert re.search(r"\[pid \d+\] <\.\.\. fork resumed> \) += 0\n", done.stderr)
    assert re.search(r'\[pid \d+\] two->strlen\("Parent"\) += 6\n', done.stderr)
    assert re.search(r'write\(-1, "P", 1\) += -1 EBADF', done.stderr)
    assert re.search(r'\[pid \d+\] two->strlen\("parent"\) += 6\n', done.stderr)


def test_libraries_that_a_child_loads_and_closes(tmp_path: Path) -> None:
    """A child that closes an image leaves its parent's traps in it, and its parent's calls."""
    plug = "long labs(long);\nlong plug(long x) { return labs(x); }"
    built(tmp_path, "libplug.so", plug, "-shared", "-fPIC", "-fno-builtin")
    text = """
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static long run(void *plug, int times)
    {
        long sum = 0;
        long (*call)(long) = (long (*)(long))dlsym(plug, "plug");
        for (int i = 0; i < times; i++)
            sum += call(-i);
        return sum;
    }
    int main(void)
    {
        int wrong = 0, status;
        void *plug = dlopen("libplug.so", RTLD_NOW);
        wrong += run(plug, 3) != 3;
        for (int i = 0; i < 4; i++) {
            pid_t pid = fork();
            if (!pid) {
                wrong += run(plug, 2) != 1;
                dlclose(plug);
                plug = dlopen("libplug.so", RTLD_NOW);
                _exit(wrong + (run(plug, 5) != 10));
            }
            waitpid(pid, &status, 0);
            wrong += status != 0;
            wrong += run(plug, 1) != 0;
        }
        return 7 + wrong;
    }
    """
    program = built(tmp_path, "plugging", text, "-fno-builtin", "-Wl,-rpath,$ORIGIN")
    table = tmp_path / "table.json"
    words = ("-e", "labs", "-c", "--json", "-o", table)
    done = soscope("trace", *FOLLOWED, *words, "--", program)
    assert done.returncode == 7, done.stderr
    assert rows(table) == {"labs": 3 + 4 * (2 + 5 + 1)}


@pytest.mark.every(2)
@pytest.mark.parametrize("machine", ["x86_64", "i386"])
def test_children_of_a_process_that_runs(machine: str, tmp_path: Path) -> None:
    program = build.program("lineage")
    if machine == "i386":
        source = (build.TARGETS / "lineage.c").read_text()
        program = built(tmp_path, "lineage", source, "-m32", "-O1", "-fno-builtin", "-pthread")
    table = tmp_path / "table.json"
    ways = ["nested", "executing", "sharing", "dying", "threads"]
    with attached.running([program, "wait", *ways]) as process:
        with traced(
            process.pid, *FOLLOWED, "-c", "--json", "-o", str(table), "-e", "labs"
        ) as trace:
            out, _ = process.communicate("go\n", timeout=limit())
            assert process.returncode == 7
            trace.wait(limit())
        assert rows(table) == {"labs": counted(out).total()}


def test_what_stresses_breakpoints_goes_on(tmp_path: Path) -> None:
    """Threads, handlers, SIGTRAP of its own, longjmp, fork, vfork, spawning, dlopen and dlclose."""
    for program in (build.program("trapped"), built_for_i386(tmp_path)):
        words = ("-c", "-o", tmp_path / "table", "-e", "labs,fork,system")
        done = soscope("trace", *FOLLOWED, *words, "--", program, input="go\n")
        assert done.returncode == 7, done.stderr
        assert " wrong 0 trapped 10" in done.stdout


_FORKING = """
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    struct pollfd input = {0, POLLIN, 0};
    int wrong = 0, status;
    puts("ready");
    fflush(stdout);
    pid_t staying = fork();
    if (!staying) {
        while (!poll(&input, 1, 0))
            wrong += labs(-3) != 3;
        _exit(wrong);
    }
    while (!poll(&input, 1, 0)) {
        pid_t child = fork();
        if (!child)
            _exit((int)labs(-3));
        waitpid(child, &status, 0);
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
        child = vfork();
        if (!child)
            _exit(5);
        waitpid(child, &status, 0);
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 5;
    }
    waitpid(staying, &status, 0);
    printf("wrong %d", wrong + status);
    return 7;
}
"""


# how often the program waits, for children and for who traces it, while it forks some of them
_SOME = 40


def children(pid: int) -> list[int]:
    """Return the children of a process's first thread."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def tracers(pid: int) -> set[int]:
    """Return who traces a process or its children, which may end meanwhile."""
    found = {attached.tracer_of(pid)}
    for child in children(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(attached.tracer_of(child))
    return found - {0}


@pytest.mark.parametrize("times", sizes(2, 5))
def test_all_are_let_go_of_while_they_fork(times: int, tmp_path: Path) -> None:
    program = built(tmp_path, "forking", _FORKING, "-fno-builtin")
    table = tmp_path / "table"
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(times):
            with traced(process.pid, *FOLLOWED, "-c", "-o", str(table)) as trace:
                until(has_switched(process.pid, _SOME), "it forks and waits", running=trace)
            assert trace.returncode == 0
            assert "labs" in table.read_text()
            assert attached.differences(before, process.pid) == []
            assert attached.tracer_of(process.pid) == 0
        assert attached.finish(process) == (7, "wrong 0", "")


# soscope on a machine so slow that each wait for threads that do not stop has passed at once
_SLOW = """\
import sys
from soscope.control.native import engine
engine._LEAVING = 0.0
sys.argv[0] = "soscope"
from soscope.verbs.main import start
start()
"""


def test_no_child_is_left_with_a_breakpoint_however_slow_the_machine_is(tmp_path: Path) -> None:
    program = built(tmp_path, "forking", _FORKING, "-fno-builtin")
    words = ["trace", *FOLLOWED, "-c", "-o", str(tmp_path / "table")]
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(5):
            command = [sys.executable, "-c", _SLOW, *words, "-p", str(process.pid)]
            with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL) as trace:
                until(lambda: attached.tracer_of(process.pid), "it is traced", running=trace)
                until(has_switched(process.pid, _SOME), "it forks and waits", running=trace)
                trace.send_signal(signal.SIGINT)
                assert trace.wait(limit()) == 0
            until(lambda: not tracers(process.pid), "the tracer lets go of all")
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0", "")


def test_a_killed_soscope_leaves_all_of_them_alive_and_clean(tmp_path: Path) -> None:
    program = built(tmp_path, "forking", _FORKING, "-fno-builtin")
    words = ("trace", *FOLLOWED, "-c", "-o", str(tmp_path / "table"), "--", str(program))
    with subprocess.Popen(
        [sys.executable, "-m", "soscope", *words],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        started, *_ = children(process.pid)
        until(has_switched(started, _SOME), "it forks and waits", running=process)
        process.kill()
        until(lambda: not tracers(started), "the tracer lets go of all")
        process.stdin.write("end\n")
        process.stdin.close()
        assert process.stdout.read() == "wrong 0"


def test_who_ends_the_trace_leaves_children_behind() -> None:
    """When the command has ended, a signal ends soscope, with the command's status."""
    script = "sleep 600 2>/dev/null >&2 & echo $!; exit 3"
    words = ("trace", *FOLLOWED, "-e", "fork", "--", "sh", "-c", script)
    with subprocess.Popen(
        [sys.executable, "-m", "soscope", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        child = int(process.stdout.readline())
        try:
            while "exited (status 3)" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(limit()) == 3
            assert attached.tracer_of(child) == 0
        finally:
            os.kill(child, signal.SIGTERM)


_STORM = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int out;
static void *forking(void *unused)
{
    for (;;) {
        if (!fork()) {
            char byte = labs(-3) + labs(-4) == 7 ? '.' : 'x';
            _exit(write(out, &byte, 1) != 1);
        }
    }
    return unused;
}
int main(void)
{
    int both[2];
    long lived = 0, wrong = 0;
    char bytes[4096];
    ssize_t size;
    if (pipe(both))
        return 1;
    out = both[1];
    for (int i = 0; i < 20; i++) {
        pid_t parent = fork();
        if (!parent) {
            pthread_t thread;
            signal(SIGCHLD, SIG_IGN);
            close(both[0]);
            for (int k = 0; k < 3; k++)
                pthread_create(&thread, 0, forking, 0);
            usleep(20000 + i % 7 * 3000);
            if (i % 2)
                execl("/bin/true", "true", NULL);
            kill(getpid(), SIGKILL);
        }
        waitpid(parent, 0, 0);
    }
    close(both[1]);
    while ((size = read(both[0], bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < size; i++)
            bytes[i] == '.' ? lived++ : wrong++;
    printf("lived %ld wrong %ld", lived, wrong);
    return 7;
}
"""


def test_children_whose_parents_are_killed_as_they_fork(tmp_path: Path) -> None:
    """Who has made a child may be killed, or run something else, before anybody hears of that."""
    program = built(tmp_path, "storm", _STORM, "-O1", "-fno-builtin", "-pthread")
    table = tmp_path / "table.json"
    words = ("trace", *FOLLOWED, "-e", "labs", "-c", "--json", "-o", table, "--")
    done = soscope(*words, program)
    assert done.returncode == 7, done.stderr
    said = re.fullmatch(r"lived (\d+) wrong 0", done.stdout)
    assert said is not None, done.stdout
    unseen = re.search(r"calls of ([\d,]+) children were not seen", done.stderr)
    missing = 0 if unseen is None else int(unseen[1].replace(",", ""))
    assert 2 * (int(said[1]) - missing) <= rows(table)["labs"] <= 2 * int(said[1])


def test_a_program_that_breakpoints_cannot_see_is_named(tmp_path: Path) -> None:
    """It is followed all the same: what it executes is seen."""
    text = """
    #include <stdio.h>
    #include <unistd.h>
    int main(int argc, char **argv) { return execv(argv[argc - argc + 1], argv + 1); }
    """
    still = built(tmp_path, "still", text, "-static")
    program, path = build.program("lineage"), tmp_path / "calls.json"
    words = ("--json", "-o", path, "-e", "labs")
    done = soscope(
        *("trace", *FOLLOWED, *words, "--", "sh", "-c", '"$0" "$@"; exit $?'),
        *(still, program, "leaf", "3"),
    )
    assert done.returncode == 3
    trace = events(path)
    assert called(trace, "labs") == counted(done.stdout)
    assert "statically linked, so its calls go through no slots" in done.stderr
