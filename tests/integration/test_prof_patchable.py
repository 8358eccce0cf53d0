# SPDX-License-Identifier: Apache-2.0
"""Entries of functions that have room for a call are patched, and put back byte for byte."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes import attached, reported
from tests.support.processes.run import run
from tests.support.targets.build import made, made_in
from tests.support.time.patience import limit

LIBRARY = "libreported.so"
NAMES = ("leaf", "mid", "fib", "even", "odd")
WAYS = [
    ("gcc", "patch5", "-O0"),
    ("gcc", "patch8", "-O2", "-fcf-protection"),
    ("gcc", "patch16", "-O0", "-fcf-protection"),
    ("gcc", "patch16", "-O2"),
    ("clang", "patch5", "-O2"),
    ("clang", "patch8", "-O0", "-fcf-protection"),
    ("clang", "patch16", "-O2", "-fcf-protection"),
]


def counted(compiler: str, hooks: str, opt: str, *flags: str) -> list[str]:
    """Return the program that counts the calls of a library which gcc puts into no caller."""
    return reported.program("reported", hooks, compiler, opt, "-fno-inline", *flags)


@pytest.mark.every(5)
@pytest.mark.parametrize("way", WAYS, ids="".join)
@pytest.mark.parametrize("mode", ["count", "time", "log"])
def test_calls_are_those_that_threads_count_themselves(mode: str, way: tuple[str, ...]) -> None:
    account = reported.observe(mode, [*counted(*way), "200", "2"])
    assert account.status == 3
    for row in map(json.loads, account.out.splitlines()):
        seen = account.calls(LIBRARY, row["tid"])
        assert {name: seen.get(name) for name in NAMES} == {name: row[name] for name in NAMES}
    assert all(thread["dropped"] == thread["left"] == 0 for thread in account.threads)


def test_no_call_of_many_threads_is_lost() -> None:
    account = reported.observe("count", [*counted("gcc", "patch5", "-O2"), "1250000", "4"])
    total = 0
    for row in map(json.loads, account.out.splitlines()):
        seen = account.calls(LIBRARY, row["tid"])
        assert {name: seen.get(name) for name in NAMES} == {name: row[name] for name in NAMES}
        total += sum(row[name] for name in NAMES)
    assert total > 10_000_000


@pytest.mark.covering(1)
@pytest.mark.parametrize("way", [("gcc", "patch5"), ("clang", "patch16")], ids="".join)
@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_a_program_finds_what_it_finds(opt: str, way: tuple[str, str]) -> None:
    """Signals, coroutines, vfork, aligned frames, nested functions: see the target."""
    compiler, hooks = way
    command = reported.program("hazards", hooks, compiler, opt, "-fcf-protection")
    plain = run(command, timeout=limit())
    account = reported.observe("time", command)
    assert account.status == plain.returncode == 5
    found = [line for line in account.out.splitlines() if not line.startswith("calls")]
    assert found == [line for line in plain.stdout.splitlines() if not line.startswith("calls")]
    counts = dict(re.findall(r"^calls (\w+) (\d+)", account.out, re.MULTILINE))
    seen = account.calls("libhazards.so")
    assert {name: seen.get(name, 0) for name in counts} == {
        name: int(count) for name, count in counts.items()
    }


@pytest.mark.every(2)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_exceptions_pass_through(compiler: str) -> None:
    command = reported.program("thrown", "patch5", compiler, "-O2")
    account = reported.observe("time", command)
    plain = run(command, timeout=limit())
    assert (account.out, account.status) == (plain.stdout, plain.returncode)
    assert account.calls("libthrown.so").get("catcher")


def code_of(pid: int, library: Path) -> bytes:
    """Return the code of a library as a process has it."""
    rows = [row.split() for row in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    (span,) = [row[0] for row in rows if row[-1] == str(library) and "x" in row[1]]
    start, end = (int(word, 16) for word in span.split("-"))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        return memory.read(end - start)


@contextmanager
def busy(compiler: str, hooks: str, *flags: str, threads: int = 3) -> Iterator[tuple[int, Path]]:
    """Run a program whose threads call functions; it says at its end whether all was right."""
    command = counted(compiler, hooks, "-O0", *flags)
    with subprocess.Popen([*command, "0", str(threads)], stdin=subprocess.PIPE) as program:
        try:
            library = Path(command[0]).with_name(LIBRARY)
            reported.until_loaded(program.pid, str(library))
            yield program.pid, library
            program.communicate(b"\n", timeout=limit())
        finally:
            program.kill()
    assert program.returncode == 3


@pytest.mark.every(2)
@pytest.mark.parametrize("way", [("gcc", "patch5"), ("clang", "patch8")], ids="".join)
def test_it_comes_and_goes_while_threads_call(way: tuple[str, str]) -> None:
    with busy(*way) as (pid, library):
        before = code_of(pid, library)
        for mode in ("time", "count", "quiet"):
            calls = reported.looked(pid, mode)
            seen = sum(node.calls for thread in calls.threads for node in thread.nodes)
            assert bool(seen) == (mode != "quiet")
            assert calls.entries == (0 if mode == "quiet" else len(NAMES))
            assert code_of(pid, library) == before


def test_what_a_killed_soscope_has_left_is_put_back(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "soscope", "prof"]
    with busy("gcc", "patch5") as (pid, library):
        before = code_of(pid, library)
        file = str(tmp_path / "rec.sosr")
        attach = [*words, "attach", "-p", str(pid), "--mode", "count", "-o", file]
        with subprocess.Popen(attach, stderr=subprocess.PIPE, text=True) as soscope:
            attached.assert_it_profiles(soscope, pid)
            soscope.send_signal(signal.SIGKILL)
        assert code_of(pid, library) != before
        detach = [sys.executable, "-m", "soscope", "detach", "-p", str(pid)]
        assert run(detach, timeout=limit()).returncode == 0
        assert code_of(pid, library) == before


INSIDE = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>
enum { TRAP = 0x100 }; /* EFLAGS.TF */
__attribute__((patchable_function_entry(5, 0), noinline)) int entry(int n) { return n + 1; }
static char stack[1 << 16];
static void waits(int number)
{
    (void)number;
    puts("inside");
    fflush(stdout);
    (void)getchar();
}
static void trapped(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)number, (void)info;
    if (registers[REG_RIP] != (greg_t)entry + 2)
        return;
    registers[REG_EFL] &= ~TRAP;
    raise(SIGUSR1);
}
int main(void)
{
    stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction step = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    struct sigaction away = {.sa_handler = waits, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, NULL);
    sigaction(SIGTRAP, &step, NULL);
    sigaction(SIGUSR1, &away, NULL);
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    return entry(1) == 2 ? 7 : 1;
}
"""


def test_nobody_returns_into_the_middle_of_a_call(tmp_path: Path) -> None:
    """A handler is to return to the third of five no-operations, and another one interrupts it."""
    (tmp_path / "inside.c").write_text(INSIDE)
    program = str(tmp_path / "inside")
    made_in(tmp_path, "gcc", "-O0", "-o", program, "inside.c")
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        words = [sys.executable, "-m", "soscope", "prof", "attach", "-p", str(process.pid)]
        done = run([*words, "--mode", "count", "--duration", "0.05"], timeout=limit())
        process.communicate("\n", timeout=limit())
    assert process.returncode == 7
    assert "entries left, to the middle of which signal handlers return: 1" in done.stderr


HOST = """
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        int (*twice)(int) = (int (*)(int))dlsym(library, "twice");
        int sum = 0;
        for (int n = 0; n < 10; n++)
            sum += twice(n);
        if (!fork())
            _exit(twice(sum) != 2 * sum);
        int status;
        wait(&status);
        printf("%d %d\\n", sum, status);
        dlclose(library);
    }
    return argc;
}
"""
PLUGIN = """
static __attribute__((noinline)) int add(int a, int b) { return a + b; }
__attribute__((visibility("hidden"), noinline)) int hidden(int n) { return add(n, n); }
int (*resolve(void))(int) { return hidden; }
int chosen(int n) __attribute__((ifunc("resolve")));
int twice(int n) { return chosen(n); }
"""


def test_a_library_that_comes_and_goes() -> None:
    there = made(
        {"host.c": HOST, "plugin.c": PLUGIN},
        "gcc -O1 -fPIC -fpatchable-function-entry=5 -shared -o libplugin.so plugin.c",
        "gcc -o host host.c",
    )
    account = reported.observe("time", [str(there / "host"), str(there / "libplugin.so")])
    assert (account.out, account.status) == ("90 0\n" * 3, 2)
    seen = account.calls("libplugin.so")
    assert [seen.get(name) for name in ("twice", "hidden", "add")] == [30, 30, 30]


def test_what_is_no_room_is_left_alone(tmp_path: Path) -> None:
    """Room that is too small, or in front of a function, and enough of it."""
    text = """
    __attribute__((patchable_function_entry(5, 0))) int fine(int n) { return n + 1; }
    __attribute__((patchable_function_entry(3, 0))) int small(int n) { return n + 2; }
    __attribute__((patchable_function_entry(8, 8))) int before(int n) { return n + 3; }
    int main(void) { return fine(1) + small(1) + before(1); }
    """
    (tmp_path / "program.c").write_text(text)
    for flags in (["-fPIE", "-pie"], ["-no-pie"]):
        program = tmp_path / f"program{flags[-1]}"
        made_in(tmp_path, "gcc", "-O0", "-fno-inline", *flags, "-o", program, "program.c")
        account = reported.observe("count", [str(program)])
        assert account.status == 9
        assert account.calls(program.name) == {"fine": 1}
        (facts,) = account.facts["programs"]
        assert (facts["entries"], facts["left"]) == (1, [2, 0, 0, 0, 0])


def test_it_is_what_is_done_where_nothing_is_said(tmp_path: Path) -> None:
    command = counted("clang", "patch5", "-O2")
    file = str(tmp_path / "rec.sosr")
    words = [sys.executable, "-m", "soscope", "prof"]
    run([*words, "run", "-l", LIBRARY, "-o", file, "--", *command, "10"])
    report = json.loads(run([*words, "report", "--json", file]).stdout)
    assert report["mode"] == "time"
    named = {each["symbol"]: each for each in report["functions"]}
    assert named["mid"]["calls"] == 10
    assert all(named[name]["total_ns"] is not None for name in NAMES)
