# SPDX-License-Identifier: Apache-2.0
"""`soscope inject --sweep`: what is planted is found, and what it says of it can be repeated."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soscope.proc import status
from tests.support.machines.tools import need
from tests.support.processes.launching import compiled, environment
from tests.support.processes.run import run
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.sweep import KINDS, SWEEP
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import cpu_seconds, waits_in

SET = "malloc,calloc,realloc"
_PAUSE, _FUTEX = 34, 202  # numbers of system calls on x86-64


def words(*options: str) -> list[str]:
    return [sys.executable, "-m", "soscope", "--debug", "inject", *options]


def sweep(
    *options: str, cwd: Path | None = None, functions: str = SET
) -> subprocess.CompletedProcess[str]:
    argv = words("--sweep", functions, *options)
    return run(argv, env=environment(), cwd=cwd, timeout=limit(120))


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert wrong_members(said, SWEEP) == []
    sites = said["sites"]
    order = [(site["image"], int(site["offset"], 16), site["function"]) for site in sites]
    assert order == sorted(order)
    kinds = [site["kind"] for site in sites]
    assert said["totals"] == {"sites": len(sites)} | {kind: kinds.count(kind) for kind in KINDS}
    bad = {"crash", "hang", "wrong"} & set(kinds)
    assert done.returncode == (1 if bad else 0)
    return said


def made(folder: Path, text: str, *flags: str, name: str = "program") -> Path:
    """Compile a program, or with -shared a library."""
    source, program = folder / f"{name}.c", folder / name
    source.write_text(text)
    made_in(folder, "gcc", "-O1", "-fno-builtin", "-o", program, source, *flags)
    return program


def planted() -> Path:
    return compiled("planted.c", "-fno-builtin")


def places(program: Path) -> list[tuple[int, int, str]]:
    """Return (address, end, name) of the functions of a program."""
    listed = subprocess.run(
        [need("nm"), "-S", str(program)],
        check=True,
        capture_output=True,
        text=True,
        timeout=limit(),
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [
        (int(row[0], 16), int(row[0], 16) + int(row[1], 16), row[3])
        for row in rows
        if len(row) == 4 and row[2] in "tT"
    ]


def function_at(program: Path, offset: str) -> str:
    return next(name for start, end, name in places(program) if start < int(offset, 16) <= end)


def left_behind(program: Path) -> list[int]:
    """Return processes of a program that still run; it is the test's own copy."""
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and status.program_path(int(name)) == str(program)
    ]


def hangs(pid: int) -> bool:
    """Return whether a planted program hangs: no other one waits like this, or runs as long."""
    try:
        return waits_in(pid, _PAUSE, _FUTEX)() or cpu_seconds(pid) > 0.5
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended


def copied(folder: Path) -> Path:
    """Return a copy of the planted program: other tests may run it at the same time."""
    return Path(shutil.copy(planted(), folder))


@pytest.mark.long
def test_what_is_planted_is_found_and_can_be_repeated(tmp_path: Path) -> None:
    program = copied(tmp_path)
    options = ("--json", "--", str(program))  # the limit is soscope's, by how long a run takes
    done = sweep(*options)
    said = document(done)
    assert said["command"] == [str(program)]
    assert said["functions"] == SET.split(",")
    assert said["baseline"] == {"status": 0, "signal": None}
    assert said["deterministic"] is True
    of = {function_at(planted(), site["offset"]): site for site in said["sites"]}
    assert len(of) == 20
    assert {name: site["kind"] for name, site in of.items()} == {
        name: name.partition("_")[0] for name in of
    }
    statuses = {"error_exit": 1, "error_message": 2, "error_now": 125, "error_child": 3}
    for name, site in of.items():
        died = site["kind"] == "crash"
        assert site["status"] == (None if died or site["kind"] == "hang" else statuses.get(name, 0))
        assert site["signal"] == (
            None if not died else "SIGABRT" if name == "crash_abort" else "SIGSEGV"
        )
        assert bool(site["stack"]) == died
        if died:
            frames = [frame.split("+")[0] for frame in site["stack"]]
            assert f"planted!{name}" in frames
            assert "planted!main" in frames
    assert of["crash_store"]["stack"][0] == "planted!store+0x0"
    assert of["crash_call"]["stack"][0] == "0x0"
    assert not left_behind(program)
    assert sweep(*options).stdout == done.stdout
    again: dict[tuple[str, str | None, int | None], str] = {}  # one of each end
    for name, site in of.items():
        # what the one leaves behind holds our pipes, and nobody ends the others
        if name != "error_child" and site["kind"] != "hang":
            again.setdefault((site["kind"], site["signal"], site["status"]), name)
    for name in again.values():
        repeat(name, of[name])


def repeat(name: str, site: dict[str, Any]) -> None:
    """Run the line that repeats a site's run."""
    program, verb, *rest = shlex.split(site["repeat"])
    assert (program, verb) == ("soscope", "inject")
    done = run(words(*rest), env=environment(), timeout=limit(120))
    assert " (INJECTED)" in done.stderr
    died = -signal.Signals[site["signal"]] if site["signal"] else None
    assert done.returncode == (died or site["status"]), name


def test_the_text_says_the_worst_first_and_how_to_repeat_it() -> None:
    done = sweep("--", str(planted()))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    name = f"{planted()}: 20 call sites of malloc, calloc, realloc; status 0 without injection"
    assert lines[0] == name
    assert lines[-1] == "20 sites: 4 none, 4 error, 4 crash, 4 hang, 4 wrong"
    heads = [line.split()[0] for line in lines[1:-1] if line and not line.startswith(" ")]
    assert heads == ["crash"] * 4 + ["hang"] * 4 + ["wrong"] * 4 + ["error"] * 4
    assert sum(line.startswith("    soscope inject -e fault=") for line in lines) == 16
    assert re.match(r"crash  SIGSEGV  malloc at planted\+0x[0-9a-f]+$", lines[2])


@pytest.mark.every(7)
@pytest.mark.parametrize(
    ("options", "status_", "text"),
    [
        (["--sweep", "nope", "--", "true"], 125, "it is not known how 'nope' fails"),
        (["--sweep", "a b", "--", "true"], 125, "'a b' is no name of a function"),
        (["--sweep", "malloc:when=3", "--", "true"], 125, "is not names of functions"),
        (["--sweep", "malloc"], 125, "no command to run"),
        (["--sweep", "malloc", "-e", "fault=free", "--", "true"], 125, "-e cannot be combined"),
        (["--sweep", "malloc", "--record", "x", "--", "true"], 125, "--record does not go"),
        (["--sweep", "malloc", "-j", "0", "--", "true"], 125, "no possible number of runs"),
        (["-e", "fault=malloc", "-j", "2", "--", "true"], 125, "-j is for a sweep"),
        (["--sweep", "malloc", "--", "/nowhere"], 127, "cannot run '/nowhere'"),
        (["--sweep", "malloc", "--", "/etc/passwd"], 126, "cannot run '/etc/passwd'"),
        (["--sweep", "malloc", "-o", "/nowhere/x", "--", "true"], 125, "cannot write '/nowhere/x'"),
        (["--sweep", "malloc", "--timeout", "200ms", "--", "sleep", "9"], 125, "does not end in"),
        (["--sweep", "malloc", "--test", "false", "--", "ls", "/"], 125, "fails without injection"),
    ],
)
def test_what_cannot_work_is_said(options: list[str], status_: int, text: str) -> None:
    done = run(words(*options), env=environment(), timeout=limit(120))
    assert text in done.stderr
    assert (done.returncode, done.stdout) == (status_, "")


def test_a_function_that_nobody_calls_has_no_sites() -> None:
    done = sweep("--json", "--", "/bin/true", functions="getaddrinfo")
    assert document(done)["sites"] == []
    assert "no call of these functions went through a slot" in done.stderr


def test_a_full_disk_is_said() -> None:
    done = sweep("-o", "/dev/full", "--", str(planted()), functions="getaddrinfo")
    assert done.returncode == 1
    assert "cannot write /dev/full: no space left on device" in done.stderr


FICKLE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    FILE *file = fopen("count", "a+");
    int number;

    fputc('.', file);
    fflush(file);
    number = (int)ftell(file);
    if (number <= 2)
        free(malloc(10)); // before any injection alone
    if (number == 2)
        free(calloc(1, 11)); // in one of the two runs
    if (!realloc(NULL, 12))
        return 3;
    printf("%d\\n", number);
    return 0;
}
"""


def test_a_program_that_is_not_deterministic_is_told(tmp_path: Path) -> None:
    program = made(tmp_path, FICKLE)
    done = sweep("--from", "MAIN", "--json", "--", str(program), cwd=tmp_path)
    said = document(done)
    assert said["deterministic"] is False
    kinds = {site["function"]: site["kind"] for site in said["sites"]}
    assert kinds == {"malloc": "moved", "calloc": "moved", "realloc": "error"}
    assert "two runs differ in what they write" in done.stderr
    assert re.search(r"only one of two runs reached calloc at program\+0x", done.stderr)
    assert "so nothing can be said of its output" in done.stderr


def test_a_test_looks_at_the_output(tmp_path: Path) -> None:
    program = made(
        tmp_path,
        """
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void)
        {
            void *a = malloc(10), *b = calloc(1, 11), *c = realloc(NULL, 12);

            dprintf(1, "%d %s%s\\n", getpid(), a ? "good" : "bad", b ? " fine" : "");
            return c ? 0 : 4;
        }
        """,
    )
    test = "read pid word rest && test $word = good"
    done = sweep("--from", "MAIN", "--test", test, "--json", "--", str(program))
    said = document(done)
    kinds = {site["function"]: site["kind"] for site in said["sites"]}
    assert kinds == {"malloc": "wrong", "calloc": "none", "realloc": "error"}
    assert said["deterministic"] is False
    assert "nothing can be said" not in done.stderr


PLUGIN = """
#include <stdlib.h>
int work(void)
{
    char *p = malloc(40);

    p[0] = 1;
    free(p);
    return 0;
}
"""

LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names)
{
    for (int i = 1; i < count; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        int (*work)(void) = (int (*)(void))dlsym(library, "work");

        work();
    }
    return 0;
}
"""


def test_images_of_one_name_are_told_apart(tmp_path: Path) -> None:
    libraries = []
    for name in ("a b", "b"):
        folder = tmp_path / name
        folder.mkdir()
        library = made(folder, PLUGIN, "-shared", "-fPIC", "-g", name="plug.so")
        libraries.append(str(library))
    program = made(tmp_path, LOADER)
    done = sweep("--json", "--from", "plug.so", "--", str(program), *libraries)
    sites = document(done)["sites"]
    assert [site["image"] for site in sites] == libraries
    assert {site["kind"] for site in sites} == {"crash"}
    assert all(site["stack"][0].startswith("plug.so!work+") for site in sites)
    for site in sites:
        repeat("plug", site)


THREADS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char room[1 << 16];
static int process(void *nothing) { (void)nothing; return puts("a process of clone's") < 0; }
static void *idle(void *nothing) { return nothing; }
static void *in_a_thread(void *nothing)
{
    volatile int *p = malloc(40);

    *p = 1;
    free((void *)p);
    return nothing;
}
static void *when_main_is_gone(void *nothing)
{
    volatile int *p = calloc(1, 40);
    int child, status;

    usleep(20000);
    *p = 1;
    child = clone(process, room + sizeof(room), CLONE_VM, NULL);
    if (waitpid(child, &status, __WCLONE) != child || status)
        abort();
    puts("the end");
    exit(0);
}
int main(void)
{
    pthread_t thread;

    for (int i = 0; i < 50; i++) {
        pthread_create(&thread, NULL, idle, NULL);
        pthread_join(thread, NULL);
    }
    pthread_create(&thread, NULL, in_a_thread, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, when_main_is_gone, NULL);
    pthread_exit(NULL);
}
"""


def test_whatever_thread_dies_its_stack_is_known(tmp_path: Path) -> None:
    program = made(tmp_path, THREADS, "-g", "-pthread")
    said = document(sweep("--from", "MAIN", "--json", "--", str(program)))
    assert said["baseline"] == {"status": 0, "signal": None}
    stacks = {site["function"]: site["stack"] for site in said["sites"]}
    assert stacks["malloc"][0].startswith("program!in_a_thread+")
    assert stacks["calloc"][0].startswith("program!when_main_is_gone+")
    assert {site["kind"] for site in said["sites"]} == {"crash"}


DEEP = """
#include <pthread.h>
#include <stdlib.h>
static volatile int one = 1;
static int deeper(int depth)
{
    volatile char room[4096];

    room[0] = depth;
    return one ? deeper(depth + 1) + room[0] : 0;
}
static void *in_a_thread(void *nothing)
{
    void *p = calloc(1, 40);

    if (!p)
        deeper(0);
    free(p);
    return nothing;
}
int main(void)
{
    pthread_t thread;
    void *p = malloc(40);

    if (!p)
        deeper(0);
    free(p);
    pthread_create(&thread, NULL, in_a_thread, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"""


def test_a_stack_that_overflows_is_shown(tmp_path: Path) -> None:
    program = made(tmp_path, DEEP, "-g", "-pthread")
    sites = document(sweep("--from", "MAIN", "--json", "--", str(program)))["sites"]
    assert [site["signal"] for site in sites] == ["SIGSEGV", "SIGSEGV"]
    for site in sites:
        assert len(site["stack"]) == 64
        assert all(frame.startswith("program!deeper+") for frame in site["stack"])


def test_children_are_swept_with_f(tmp_path: Path) -> None:
    program = made(tmp_path, PLUGIN + "int main(void) { return work(); }")
    shell = f"{shlex.quote(str(program))}; echo $?"
    inside = document(sweep("-f", "--json", "--from", "program", "--", "sh", "-c", shell))["sites"]
    assert [(site["kind"], site["status"]) for site in inside] == [("wrong", 0)]
    repeat("child", inside[0])
    outside = sweep("--json", "--from", "program", "--", "sh", "-c", shell)
    assert document(outside)["sites"] == []
    assert "no call of these functions went through a slot" in outside.stderr
    again = sweep("--json", "--from", "program", "--", "sh", "-c", f"exec {shell}")
    assert [(site["kind"], site["status"]) for site in document(again)["sites"]] == [
        ("crash", None)
    ]


def test_a_run_that_soscope_fails_is_no_result(tmp_path: Path) -> None:
    program = made(
        tmp_path,
        """
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void)
        {
            if (!malloc(10)) {
                kill(getppid(), SIGKILL); // the run's soscope
                pause();
            }
            return calloc(1, 1) ? 0 : 3;
        }
        """,
    )
    done = sweep("--from", "MAIN", "--json", "--", str(program))
    assert done.returncode == 125
    assert [site["function"] for site in json.loads(done.stdout)["sites"]] == ["calloc"]
    said = r"malloc at program\+0x[0-9a-f]+ could not be tried: its process was killed"
    assert re.search(said, done.stderr)
    assert not [
        name
        for name in os.listdir("/proc")
        if name.isdigit() and status.program_path(int(name)) == str(program)
    ]


def test_what_is_long_does_not_matter() -> None:
    shell = "head -c 100000000 /dev/zero"
    done = sweep("--json", "--from", "dash", "--from", "bash", "--", "sh", "-c", shell)
    assert document(done)["deterministic"] is True


def test_nobody_has_a_terminal() -> None:
    shell = "cat; exec 3< /dev/tty; exit 7"
    done = sweep("--json", "--from", "MAIN", "--", "bash", "-c", shell)
    assert document(done)["baseline"]["status"] == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_it(number: int, tmp_path: Path) -> None:
    program = copied(tmp_path)
    process = subprocess.Popen(
        words("--sweep", SET, "--timeout", "10m", "--json", "--", str(program)),
        env={**os.environ, **environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = min(2, len(os.sched_getaffinity(0)))  # that are made at once, at least
    until(lambda: sum(map(hangs, left_behind(program))) >= runs, "some hang", running=process)
    process.send_signal(number)
    out, err = process.communicate(timeout=limit())
    assert process.returncode == -number
    match = re.search(r"ended by a signal: (\d+) of 20 sites tried", err)
    assert match is not None
    assert json.loads(out)["totals"]["sites"] == int(match[1]) < 20
    assert not left_behind(program)


REAL = {
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a); insert into t values(1); select * from t",
    ],
    "git": ["git", "--version"],
    "bash": ["bash", "-c", "for i in 1 2; do echo $i; done"],
    "jq": ["jq", "-n", "-c", "[1,2]|add"],
    "curl": ["curl", "-s", "file:///etc/passwd"],
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", REAL)
def test_real_programs_end_the_same_twice(name: str) -> None:
    need(name)
    options = ("--json", "--timeout", f"{limit(10):.0f}s", "--", *REAL[name])
    done = sweep(*options, functions="malloc,fopen,strdup")
    said = document(done)
    assert said["deterministic"] is True
    assert said["sites"]
    assert not {site["kind"] for site in said["sites"]} & {"moved", "hang"}
    assert sweep(*options, functions="malloc,fopen,strdup").stdout == done.stdout
