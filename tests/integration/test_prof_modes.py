# SPDX-License-Identifier: Apache-2.0
"""soscope prof --mode: calls that a library reports itself, as its program counts them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run, soscope
from tests.support.targets.build import made, made_in

LIBRARY = """\
#include <stdlib.h>
int leaf(int x) { return x * 3 + 1; }
int middle(int x) { int s = 0; for (int i = 0; i < 10; i++) s += leaf(x + i); return s; }
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int work(int n)
{
	int s = 0, v[8] = {5, 1, 7, 3, 8, 2, 6, 4};
	for (int i = 0; i < n; i++)
		s += middle(i);
	qsort(v, 8, sizeof *v, order);
	return s + fib(12) + v[0];
}
"""
PROGRAM = """\
#include <pthread.h>
#include <stdio.h>
int work(int);
static void *run(void *a) { for (int i = 0; i < 100; i++) work(20); return a; }
int main(void)
{
	pthread_t t[3];
	for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, run, 0);
	for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
	return work(0) & 127;
}
"""
CALLS = {"work": 301, "middle": 6000, "leaf": 60_000, "fib": 301 * 465}


@pytest.fixture(scope="module", params=["-finstrument-functions", "-pg", "-pg -mfentry"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modes")
    (folder / "lib.c").write_text(LIBRARY)
    (folder / "main.c").write_text(PROGRAM)
    how = ["-O1", "-g", "-fno-optimize-sibling-calls", "-fno-inline", *request.param.split()]
    made_in(folder, "gcc", *how, "-fPIC", "-shared", "lib.c", "-o", "libwork.so")
    words = ["main.c", "-L.", "-lwork", "-pthread", "-Wl,-rpath,$ORIGIN", "-o", "program"]
    made_in(folder, "gcc", "-O1", *words)
    return folder / "program"


def profiled(program: Path, mode: str, *options: str) -> dict[str, Any]:
    words = ["prof", "run", "-q", "--mode", mode, *options, "--json", "--", str(program)]
    done = soscope(*words)
    plain = run([program])
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    said: dict[str, Any] = json.loads(done.stderr)
    assert (said["mode"], said["state"], said["totals"]["dropped"]) == (mode, "complete", 0)
    return said


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", ["count", "time", "sample", "log"])
def test_calls_are_those_of_the_program(program: Path, mode: str) -> None:
    said = profiled(program, mode)
    rows = {row["symbol"]: row for row in said["functions"] if row["image"] == "libwork.so"}
    assert {name: rows[name]["calls"] for name in CALLS} == CALLS
    for name in CALLS:
        row = rows[name]
        assert (row["total_ns"] is None) == (mode == "count")
        if mode != "count":
            assert row["total_ns"] >= 0.999 * row["self_ns"] >= 0  # sums of rounded times
    estimated = [note for note in said["notes"] if note.startswith("times are estimates: ")]
    assert len(estimated) == (mode == "sample")
    arcs = {(arc["caller"], arc["callee"]): arc["calls"] for arc in said["arcs"]}
    assert arcs["work", "middle"] == CALLS["middle"]
    assert arcs["middle", "leaf"] == CALLS["leaf"]
    assert arcs["work", "fib"] == 301
    assert (arcs["run", "work"], arcs["main", "work"]) == (300, 1)
    callers = {
        arc["caller_image"]: arc["calls"] for arc in said["arcs"] if arc["callee"] == "order"
    }
    if mode == "count":  # trees know who called among those that report their calls
        assert list(callers) == ["libc.so.6"]


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("images", "mode", "boundary"),
    [
        ([], "time", None),
        (["-l", "libwork*"], "time", None),
        (["-l", "libc.so.6"], None, "time"),
        (["-l", "libnowhere*"], "time", "time"),
    ],
)
def test_the_way_that_fits(
    program: Path, images: list[str], mode: str | None, boundary: str | None
) -> None:
    done = soscope("prof", "run", "-q", *images, "--json", "--", str(program))
    said = json.loads(done.stderr)
    assert (said["mode"], said["boundary"]) == (mode, boundary)
    unmet = [note for note in said["notes"] if note.startswith("-l ")]
    assert unmet == (["-l libnowhere* matches no image"] if "libnowhere*" in images else [])


@pytest.mark.every(3)
def test_a_library_that_is_loaded_later_is_named(program: Path) -> None:
    library = program.parent / "libwork.so"
    words = [sys.executable, "-S", "-c", f"import ctypes; ctypes.CDLL({str(library)!r}).work(1)"]
    note = "libwork.so reports its calls: --mode time times those inside it"
    done = soscope("prof", "run", "--", *words)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == f"soscope: {note}"
    for chosen in (["--boundary", "count"], ["-l", "libc.so.6"]):
        assert note not in soscope("prof", "run", *chosen, "--", *words).stderr


def test_a_library_that_does_not_report() -> None:
    done = soscope("prof", "run", "-q", "--mode", "count", "--json", "--", "/bin/true")
    assert done.returncode == 0
    said = json.loads(done.stderr)
    assert said["functions"] == []
    note = "no image reports its calls: none was built with -pg"
    assert any(said_note.startswith(note) for said_note in said["notes"])


@pytest.mark.every(2)
def test_threads_are_counted_that_had_one_table_in_turn(program: Path) -> None:
    text = PROGRAM.replace("t[3]", "t[60]").replace("i < 3", "i < 60")
    text = text.replace("run, 0);\n\tfor (int i = 0; i < 60; i++) ", "run, 0), ")
    (program.parent / "turns.c").write_text(text.replace("return work(0) & 127", "return 0"))
    words = ["turns.c", "-L.", "-lwork", "-pthread", "-Wl,-rpath,$ORIGIN", "-o", "turns"]
    made_in(program.parent, "gcc", "-O1", *words)
    said = profiled(program.parent / "turns", "time")
    assert said["totals"]["threads"] == 60  # and not 61: main has reported nothing


HANDLED = """\
#include <time.h>
__attribute__((no_instrument_function)) static long cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
long quick(long ns) { for (long end = ns ? cpu() + ns : 0; ns && cpu() < end;) ; return ns + 1; }
long around(long ns) { return quick(ns) + 1; }
"""
HANDLER = """\
#include <signal.h>
#include <sys/time.h>
long quick(long ns), around(long ns);
static void on(int number) { (void)number; around(100000); }
int main(void)
{
	struct itimerval often = {{0, 500}, {0, 500}};
	long sum = 0;
	signal(SIGPROF, on);
	setitimer(ITIMER_PROF, &often, 0);
	for (int i = 0; i < 2000000; i++)
		sum += quick(0);
	return sum == 1;
}
"""


def test_a_handler_in_a_hook_of_a_function_that_it_calls_too() -> None:
    """Its calls are inside one that has not begun, or has ended: their time is in no other."""
    make = "gcc -Os -fno-inline -fno-optimize-sibling-calls -pg -fPIC -shared lib.c -o lib.so"
    link = "gcc main.c -L. -l:lib.so -o program -Wl,-rpath,$ORIGIN"
    where = made({"lib.c": HANDLED, "main.c": HANDLER}, make, link)
    said = profiled(where / "program", "time")
    rows = {row["symbol"]: row for row in said["functions"]}
    assert rows["quick"]["calls"] == 2_000_000 + rows["around"]["calls"]
    assert rows["around"]["calls"]
    assert rows["quick"]["self_ns"] >= rows["around"]["calls"] * 100_000
    assert rows["quick"]["total_ns"] >= rows["quick"]["self_ns"]


def test_times_have_their_doubt() -> None:
    """A parent of which few calls were timed has any time by chance."""
    code = (
        "long leaf(long x) { for (volatile int i = 0; i < 1000; i++) ; return x; }\n"
        "long parent(void) { long s = 0; for (int i = 0; i < 200; i++) s += leaf(i); return s; }\n"
    )
    main = "long parent(void); int main(void) { for (int i = 0; i < 100; i++) parent(); return 0; }"
    make = "gcc -O1 -fno-inline -pg -fPIC -shared lib.c -o lib.so"
    link = "gcc main.c -L. -l:lib.so -o program -Wl,-rpath,$ORIGIN"
    where = made({"lib.c": code, "main.c": main}, make, link)
    said = profiled(where / "program", "sample")
    rows = {row["symbol"]: row for row in said["functions"]}
    assert (rows["parent"]["calls"], rows["leaf"]["calls"]) == (100, 20_000)
    assert 0 < rows["leaf"]["doubt_ns"] < rows["leaf"]["self_ns"]
    assert rows["parent"]["doubt_ns"] > rows["parent"]["self_ns"]
    done = soscope("prof", "run", "--mode", "sample", "--", where / "program")
    (line,) = [line for line in done.stderr.splitlines() if line.endswith(" parent")]
    assert line.split()[0].endswith("?")
