# SPDX-License-Identifier: Apache-2.0
"""Calls of native processes by breakpoints: all of them are seen, and nobody is the worse for it.

The programs count their own calls, and say what came of everything else.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.files.elffiles import built
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run, has_switched, state

SITES = ("--engine", "sites")
SAID = re.compile(r"calls (\d+) wrong (\d+) trapped (\d+)")
THREADS, ROUNDS = 4, 3


def built_for_i386(folder: Path) -> Path:
    """Build the stressed program for i386, whose calls go through no stubs."""
    words = ["-m32", "-O1", "-fno-builtin", "-fno-plt", "-pthread"]
    program = built(folder, "trapped", (build.TARGETS / "trapped.c").read_text(), *words)
    built(folder, "libplug_a.so", "int plug_run(int x) { return x; }", "-m32", "-shared", "-fPIC")
    return program


def ask(process: subprocess.Popen[str]) -> str:
    """Have a program do its work once; return what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return process.stdout.readline()


@contextmanager
def traced(
    pid: int, *options: str, notes: list[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Trace a process until the end of the block; it is traced when that begins.

    What soscope has said then is added to `notes`.
    """
    soscope = attached.start(pid, *options)
    until(lambda: attached.tracer_of(pid), "the process is traced", running=soscope)
    attached.wait_for_hooks(soscope)
    try:
        yield soscope
    finally:
        if soscope.poll() is None:
            soscope.send_signal(signal.SIGINT)
        said = soscope.communicate(timeout=limit())[1]
        if notes is not None:
            notes.append(said)


def rows(path: Path) -> dict[str, int]:
    """Return the calls by function of a table in JSON."""
    return {row["symbol"]: row["calls"] for row in json.loads(path.read_text())["rows"]}


@pytest.mark.every(2)
@pytest.mark.parametrize("machine", ["x86_64", "i386"])
def test_all_calls_are_seen_and_nothing_is_left(machine: str, tmp_path: Path) -> None:
    """Threads, handlers, SIGTRAP of its own, longjmp, fork, vfork, spawning, dlopen and dlclose."""
    choice: tuple[str, ...] = SITES
    if machine == "i386":
        program, choice = built_for_i386(tmp_path), ()  # which takes no agent
    else:
        program = build.program("trapped")
    table, notes = tmp_path / "table.json", list[str]()
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        words = ["-c", "--json", "-o", str(table), "-e", "labs,fork,pthread_create,system"]
        with traced(process.pid, *choice, *words, notes=notes) as soscope:
            said = SAID.match(ask(process))
        assert soscope.returncode == 0
        assert said is not None
        assert said.groups()[1:] == ("0", "10")
        assert rows(table) == {
            "labs": int(said[1]),
            "fork": 3,
            "pthread_create": THREADS * ROUNDS,
            "system": 1,
        }
        assert attached.tracer_of(process.pid) == 0
        assert attached.differences(before, process.pid) == []
        assert " wrong 0 trapped 20" in ask(process)
        assert attached.finish(process) == (7, "", "")
    why = "no agent is made for i386" if machine == "i386" else "--engine"
    assert f"engine sites, breakpoints where code goes through slots ({why})" in notes[0]
    summary = json.loads(table.read_text())
    assert summary["engine"] == "sites"
    assert summary["arch"] == machine


MEETS = """
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    volatile long sum = 0;
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 0) == 0)
        for (long i = 0; i < 1000; i++)
            sum += labs(-i) - i;
    return sum ? 2 : 7;
}
"""
# If a thread is asked to stop while it is on its way from a trap to the trap's signal, the kernel
# reports the stop first. That way takes a microsecond, so a test cannot wait for it. Instead this
# tracer blocks the signal of a thread that has stopped for a trap, and asks the thread to stop.
LATE = """
import os, sys
from soscope.verbs.main import main
from soscope.control.native.engine import NativeEngine
from soscope.entry import ptrace
from soscope.proc.status import signal

undo = NativeEngine.undo

def meet_a_trap_first(engine):
    while os.waitpid(engine.pid, ptrace.WALL)[1] != signal.SIGTRAP << 8 | 0x7F:
        ptrace.resume(engine.pid)
    ptrace.set_signal_mask(engine.pid, 1 << signal.SIGTRAP - 1)
    ptrace.interrupt(engine.pid)
    ptrace.resume(engine.pid, signal.SIGTRAP)
    os.waitid(os.P_PID, engine.pid, os.WSTOPPED | os.WNOWAIT)
    ptrace.set_signal_mask(engine.pid, 0)
    print("trap is pending", file=sys.stderr)
    undo(engine)

NativeEngine.undo = meet_a_trap_first
sys.exit(main(sys.argv[1:]))
"""


def test_who_has_met_a_trap_is_let_go_of_behind_it(tmp_path: Path) -> None:
    program = built(tmp_path, "meets", MEETS, "-O0", "-fno-builtin")
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        words = ["trace", *SITES, "-c", "-o", str(tmp_path / "table"), "--duration", "0.1"]
        done = run([sys.executable, "-c", LATE, *words, "-p", str(process.pid)])
        assert done.returncode == 0
        assert "trap is pending" in done.stderr
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "", "")


def test_a_killed_soscope_leaves_no_breakpoint(tmp_path: Path) -> None:
    with attached.running([build.program("trapped")]) as process:
        before = attached.snapshot(process.pid)
        words = ["-c", "-o", str(tmp_path / "table")]
        with traced(process.pid, *SITES, *words) as soscope:
            assert process.stdin is not None
            assert process.stdout is not None
            works = has_run(process.pid)
            assert not works()  # it waits
            process.stdin.write("go\n")
            process.stdin.flush()
            until(works, "it is in the middle of its work", running=soscope)
            soscope.kill()
            assert " wrong 0 " in process.stdout.readline()
        until(lambda: not attached.tracer_of(process.pid), "it is let go of")
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "", "")


def test_whatever_calls_return_to(tmp_path: Path) -> None:
    """Instructions of each kind do behind a call what they do without a breakpoint on them."""
    with attached.running([build.program("behind")]) as process:
        alone = ask(process)
        output = tmp_path / "calls"
        with traced(process.pid, *SITES, "-e", "labs", "-o", str(output)):
            assert [ask(process) for _ in range(2)] == [alone, alone]
        assert attached.finish(process) == (7, "", "")
    lines = [line for line in output.read_text().splitlines() if "labs(" in line]
    assert len(lines) == 2 * 3 * 24  # one function calls it three times
    found = [re.fullmatch(r"behind->labs\((-?\d+)\) += (\d+)", line) for line in lines]
    assert all(each is not None and abs(int(each[1])) == int(each[2]) for each in found)


def test_values_are_those_that_an_agent_sees(tmp_path: Path) -> None:
    text = """
    #include <fcntl.h>
    #include <math.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/stat.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        char line[8], room[64];
        struct stat facts;
        puts("ready");
        fflush(stdout);
        while (fgets(line, 8, stdin) && line[0] == 'g') {
            open("/nonexistent", O_RDONLY);
            close(99);
            snprintf(room, 64, "%s %d %5.2f %c %lld", "hi", -5, 2.5, 'x', 1LL << 40);
            strtod("2.75", NULL);
            ldexp(pow(2.0, argc + 0.5), 3);
            stat("/etc/passwd", &facts);
            getenv("NOPE");
            puts("done");
            fflush(stdout);
        }
        return 7;
    }
    """
    seen: list[str] = []
    for words, flags in (((), ()), (SITES, ()), ((), ("-m32",))):
        program = built(tmp_path, f"values{len(seen)}", text, "-O1", "-fno-builtin", *flags, "-lm")
        output = tmp_path / f"calls{len(seen)}"
        choice = ["-e", "open,close,snprintf,strtod,pow,ldexp,stat,getenv", "-o", str(output)]
        with attached.running([program]) as process:
            tracer = attached.start(process.pid, *words, *choice)
            attached.wait_for_hooks(tracer)
            assert ask(process) == "done\n"
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=limit())
        seen.append(re.sub(r" {2,}=", " =", output.read_text()).replace(program.name, ""))
    assert seen[0].count("\n") >= 8
    assert "-1 ENOENT" in seen[0]
    assert "2.75" in seen[0]
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


def test_waits_are_not_interrupted() -> None:
    with attached.running([build.program("attached_waits")]) as process:
        for _ in range(2):
            with traced(process.pid, *SITES, "-c", "-o", os.devnull) as soscope:
                until(has_switched(process.pid, 20), "threads wait again and again")
            assert soscope.returncode == 0
        status, out, _ = attached.finish(process)
        assert status == 7
        assert out.startswith("wrong 0,")


def test_children_that_are_forked_at_the_end_are_clean(tmp_path: Path) -> None:
    text = """
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
        while (!poll(&input, 1, 0)) {
            pid_t child = fork();
            if (!child)
                _exit((int)labs(-3));
            waitpid(child, &status, 0);
            wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
        }
        printf("wrong %d", wrong);
        return 7;
    }
    """
    program = built(tmp_path, "forking", text, "-fno-builtin")
    with attached.running([program]) as process:
        for _ in range(5):
            with traced(process.pid, *SITES, "-c", "-o", os.devnull) as soscope:
                until(has_switched(process.pid, 5), "it forks and waits", running=process)
            assert soscope.returncode == 0
        assert attached.finish(process) == (7, "wrong 0", "")


def test_a_stopped_process_stays_stopped(tmp_path: Path) -> None:
    with attached.running([build.program("trapped")]) as process:
        with traced(process.pid, *SITES, "-c", "-o", str(tmp_path / "table")):
            os.kill(process.pid, signal.SIGSTOP)
            until(lambda: state(process.pid) in {"t", "T"}, "it stops")
        assert state(process.pid) == "T"
        os.kill(process.pid, signal.SIGCONT)
        assert " wrong 0 " in ask(process)
        assert attached.finish(process) == (7, "", "")


def test_who_executes_another_program_is_let_go_of(tmp_path: Path) -> None:
    text = """
    #include <stdio.h>
    #include <unistd.h>
    int main(void)
    {
        char line[8];
        puts("ready");
        fflush(stdout);
        if (!fgets(line, 8, stdin))
            return 1;
        return execl("/bin/sh", "sh", "-c", "exit 6", NULL);
    }
    """
    program = built(tmp_path, "executing", text)
    with attached.running([program]) as process:
        soscope = attached.start(process.pid, *SITES, "-c", "-o", str(tmp_path / "table"))
        until(lambda: attached.tracer_of(process.pid), "it is traced", running=soscope)
        attached.wait_for_hooks(soscope)
        assert attached.finish(process) == (6, "", "")
        _, notes = soscope.communicate(timeout=limit())
    assert f"process {process.pid} has executed /" in notes
    assert soscope.returncode == 0


@pytest.mark.parametrize(
    ("options", "flags", "why"),
    [
        (SITES, ["-static"], "statically linked: there are no slots"),
        ((*SITES, "-k"), [], "-k: not with --engine sites, which uses no agent"),
        ((*SITES, "--on", "puts"), [], "--on, --off or --toggle: not with --engine sites"),
        (("--engine", "poison"), [], "--engine poison: not with -p"),
    ],
)
def test_what_is_refused(
    options: tuple[str, ...], flags: list[str], why: str, tmp_path: Path
) -> None:
    text = '#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); return getchar(); }'
    with attached.running([built(tmp_path, "waiting", text, *flags)]) as process:
        done = attached.trace(process.pid, *options)
        assert done.returncode in {1, 2}
        assert why in done.stderr
        assert attached.tracer_of(process.pid) == 0
        assert attached.finish(process)[0] == ord("e")
