# SPDX-License-Identifier: Apache-2.0
"""Times of calls on a busy machine: what a thread waits for a processor is no call's time.

The program shares one processor with children of its own that never rest, so it waits on each
machine. It tells what its thread had of the processor by its own clock, CLOCK_THREAD_CPUTIME_ID:
`spin` goes on until that says so, however long it takes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run, soscope
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets.build import made

LIBRARY = """\
#include <time.h>
#include <unistd.h>
__attribute__((no_instrument_function)) static long cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
long none(long x) { __asm__ volatile(""); return x + 1; }
long spin(long ns) { long end = cpu() + ns; while (cpu() < end) ; return ns; }
long doze(long us) { return usleep(us); }
"""
PROGRAM = """\
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
long none(long x), spin(long ns), doze(long us);
static long at(int clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
int main(int argc, char **argv)
{
	int rounds = atoi(argv[1]), calls = atoi(argv[2]), rivals = 2;
	pid_t rival[2];
	cpu_set_t cpu;
	long sum = 0, ran, lasted;
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof cpu, &cpu);
	for (int i = 0; i < rivals; i++)
		if (!(rival[i] = fork())) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;) ;
		}
	if (argc > 3)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3});
	ran = at(CLOCK_THREAD_CPUTIME_ID);
	lasted = at(CLOCK_MONOTONIC);
	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < calls; k++)
			sum += none(k);
		sum += spin(2000000);
		sum += doze(500);
	}
	ran = at(CLOCK_THREAD_CPUTIME_ID) - ran;
	lasted = at(CLOCK_MONOTONIC) - lasted;
	for (int i = 0; i < rivals; i++)
		kill(rival[i], SIGKILL);
	printf("%ld %ld\\n", ran, lasted);
	return sum == 1;
}
"""
ROUNDS, CALLS = 50, 400
WORDS = [str(ROUNDS), str(CALLS)]
SPUN, DOZED = ROUNDS * 2_000_000, ROUNDS * 500_000
HOOKS = ("-finstrument-functions", "-pg", "-pg -mfentry")


def program(how: str = "") -> str:
    flags = f"-O1 -fno-optimize-sibling-calls -fno-inline {how} -fPIC -shared -Wl,-soname,lib.so"
    make = f"gcc {flags} lib.c -o lib.so"
    link = "gcc -O1 main.c -L. -l:lib.so -o program -Wl,-rpath,$ORIGIN"
    return str(made({"lib.c": LIBRARY, "main.c": PROGRAM}, make, link) / "program")


def told(text: str) -> tuple[int, int]:
    """Return how long the program's thread ran, and how long that lasted."""
    ran, lasted = map(int, text.split())
    assert lasted > ran + DOZED + 50_000_000  # it has waited, or there is nothing to see
    return ran, lasted


def assert_right(rows: dict[str, dict[str, Any]], ran: int, *, hooks: int = 0) -> None:
    """Compare times with the program's; `hooks` are what they cost at most that is not known."""
    assert rows["none"]["calls"] == ROUNDS * CALLS
    assert rows["none"]["self_ns"] <= ran - SPUN + hooks
    assert 0.9 * SPUN <= rows["spin"]["self_ns"] <= 1.25 * SPUN
    assert rows["doze"]["calls"] == ROUNDS
    assert rows["doze"]["total_ns"] >= 0.99 * DOZED


def assert_told(totals: dict[str, Any], ran: int, lasted: int) -> None:
    waited = lasted - ran - DOZED  # or a little less: it wakes up late without rivals, too
    assert 0.5 * waited <= totals["waited_ns"] <= 1.1 * waited
    assert totals["waited_ns"] < totals["waited_of_ns"] <= 1.1 * lasted
    assert totals["waits_unknown"] == 0


def table(text: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    document = json.loads(text)
    return {row["symbol"]: row for row in document["rows"]}, document["totals"]


def test_a_table_is_without_it(tmp_path: Path) -> None:
    out = tmp_path / "table"
    done = run([*SOSCOPE, "-c", "-l", "lib.so", "--json", "-o", str(out), program(), *WORDS])
    ran, lasted = told(done.stdout)
    rows, totals = table(out.read_text())
    assert_right(rows, ran)
    assert_told(totals, ran, lasted)
    assert "threads waited" in done.stderr
    assert "% of the traced time; the times are without it" in done.stderr


def test_records_are_without_it(tmp_path: Path) -> None:
    recording = str(tmp_path / "run.sosr")
    options = [
        "-e",
        "none+spin+doze",
        "--record",
        recording,
        "--json",
        "-o",
        str(tmp_path / "live"),
    ]
    done = run([*SOSCOPE, *options, program(), *WORDS])
    ran, lasted = told(done.stdout)
    report = [sys.executable, "-m", "soscope", "report", "-q", "--json"]
    rows, totals = table(run([*report, "-c", recording]).stdout)
    assert_right(rows, ran)
    assert_told(totals, ran, lasted)
    live = (tmp_path / "live").read_text()
    assert live == run([*report, recording]).stdout
    calls = [json.loads(line) for line in live.splitlines()]
    for symbol, row in rows.items():
        times = [call["duration_ns"] for call in calls if call.get("symbol") == symbol]
        assert sum(times) == row["total_ns"]


NAPPING = """\
long lull(long ns) { usleep(500); return spin(ns); }
long rest(long ns) { usleep(500); return lull(ns); }
"""


def test_waits_before_a_nested_call_are_not_taken_for_its_own(tmp_path: Path) -> None:
    """A thread that has slept waits to run again, calls on, and waits in that call once more."""
    flags = "-O1 -fno-optimize-sibling-calls -fno-inline -fPIC -shared -Wl,-soname,lib.so"
    make = f"gcc {flags} lib.c -o lib.so"
    link = "gcc -O1 main.c -L. -l:lib.so -o program -Wl,-rpath,$ORIGIN"
    calls = "long rest(long ns);\n" + PROGRAM.replace("spin(2000000)", "rest(2000000)")
    folder = made({"lib.c": LIBRARY + NAPPING, "main.c": calls}, make, link)
    recording = str(tmp_path / "run.sosr")
    run([*SOSCOPE, "-e", "spin+lull+rest", "--record", recording, str(folder / "program"), *WORDS])
    report = [sys.executable, "-m", "soscope", "report", "-q", "--json"]
    rows, _ = table(run([*report, "-c", recording]).stdout)
    slept = ROUNDS * 500_000
    for symbol, least in {"spin": SPUN, "lull": SPUN + slept, "rest": SPUN + 2 * slept}.items():
        assert rows[symbol]["calls"] == ROUNDS
        assert 0.9 * least <= rows[symbol]["total_ns"] <= 1.25 * least, (symbol, rows[symbol])


@pytest.mark.parametrize("mode", ["time", "log"])
@pytest.mark.parametrize("how", HOOKS)
def test_calls_that_report_themselves_are_without_it(how: str, mode: str, tmp_path: Path) -> None:
    recording = str(tmp_path / "run.sosr")
    done = soscope("prof", "run", "--mode", mode, "-o", recording, "--", program(how), *WORDS)
    ran, lasted = told(done.stdout)
    said = json.loads(soscope("prof", "report", "--json", recording).stdout)
    rows = {row["symbol"]: row for row in said["functions"]}
    assert_right(rows, ran)
    assert_told(said["totals"], ran, lasted)


def test_what_nobody_knows_is_told(tmp_path: Path) -> None:
    out = tmp_path / "table"
    words = ["-c", "-l", "lib.so", "--json", "-o", str(out), program(), "20", "1", "no more files"]
    done = run([*SOSCOPE, *words])
    _, totals = table(out.read_text())
    assert totals["waits_unknown"] > 0
    assert "contain this wait, whose length is unknown" in done.stderr
    assert "without it" not in done.stderr
