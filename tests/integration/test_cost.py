# SPDX-License-Identifier: Apache-2.0
"""What a program paid for being traced is said: what it waited for soscope, too.

The program itself says how long it was kept from running, by its clocks and the scheduler's
account. soscope's part of that lies between two bounds: the time that the thread slept, and the
time that it was on no processor.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from subprocess import PIPE, Popen
from typing import Any, NamedTuple

import pytest

from soscope.recording.reader import RecordingFile
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

# Of each thread: its time, and of that how long it slept, and how long it was on no processor.
CALLER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int calls;
static char name[480]; // so that a few thousand calls fill all that soscope keeps
static uint64_t slept, absent, ran;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void)
{
    struct timespec at;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void account(uint64_t *on, uint64_t *queued)
{
    char text[96] = "";
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY);
    syscall(SYS_read, fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    char *rest;
    *on = strtoull(text, &rest, 10);
    *queued = strtoull(rest, &rest, 10);
}

static void *work(void *unused)
{
    uint64_t on, queued, on_after, queued_after, begin = now();
    account(&on, &queued);
    for (int i = 0; i < calls; i++)
        getenv(name);
    account(&on_after, &queued_after);
    uint64_t took = now() - begin, off = took - (on_after - on);
    pthread_mutex_lock(&lock);
    ran += took;
    absent += off;
    slept += off - (queued_after - queued);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[128];
    int others = count > 2 ? atoi(words[2]) : 0;
    memset(name, 'n', sizeof(name) - 1);
    calls = atoi(words[1]);
    for (int i = 0; i < others; i++)
        pthread_create(&threads[i], 0, work, 0);
    if (!others)
        work(0);
    for (int i = 0; i < others; i++)
        pthread_join(threads[i], 0);
    printf("%llu %llu %llu\n", (unsigned long long)ran, (unsigned long long)slept,
           (unsigned long long)absent);
    return 0;
}
"""
CALLS = ["-e", "getenv", "-s", "500"]
SLACK = 10_000_000  # ns: a tick of the scheduler's account each way, and soscope's own clocks


class Truth(NamedTuple):
    """What the program says: ns of all its threads."""

    ran: int
    slept: int
    absent: int


def caller() -> str:
    return str(build.made({"caller.c": CALLER}, "gcc -O1 -pthread caller.c -o caller") / "caller")


def traced(path: Path, *words: str, options: tuple[str, ...] = ()) -> tuple[Truth, dict[str, Any]]:
    """Return what the program says, and what soscope says that it cost."""
    lines = path / "lines"
    done = run(
        [*SOSCOPE, "--json", "-o", str(lines), "-e", "getenv", "-s", "500", *options, "--", *words]
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(lines.read_text().splitlines()[-1])
    assert last["type"] == "cost"
    return Truth(*map(int, done.stdout.split())), last


def check(truth: Truth, cost: dict[str, Any]) -> None:
    """Compare what soscope says with what the program knows."""
    waited = cost["waited_ns"] - cost["parts_ns"].get("start", 0)
    assert truth.slept > 5 * SLACK, "it has to wait for this to mean anything"
    woken = truth.slept // 200  # soscope makes room, and wakes a thread a little later
    assert truth.slept - SLACK - woken <= waited <= truth.absent + SLACK


@pytest.mark.parametrize("words", [("30000",), ("15000", "2")], ids=["alone", "threads"])
def test_what_a_program_waits_for_printing_is_in_its_cost(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    truth, cost = traced(tmp_path, caller(), *words, options=("--buffer", "1M"))
    check(truth, cost)
    assert cost["parts_ns"]["print"] > 0
    assert cost["ran_ns"] >= truth.ran // int(words[-1] if len(words) > 1 else 1)


def test_who_does_not_read_is_named_as_soon_as_the_program_has_waited_a_second(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "lines"
    os.mkfifo(pipe)
    command = [*SOSCOPE, "--json", "-o", str(pipe), *CALLS, "--buffer", "512K", "--"]
    with Popen([*command, caller(), "20000"], stderr=PIPE, stdout=PIPE, text=True) as soscope:
        assert soscope.stderr is not None
        with pipe.open() as lines:
            early = soscope.stderr.readline()  # nothing is read until it is there
            read = lines.read()
        told, _ = soscope.communicate()
    assert early.startswith("soscope: the program has waited 1"), early
    assert "most of it for whoever reads soscope's output; --record FILE" in early
    cost = json.loads(read.splitlines()[-1])
    check(Truth(*map(int, told.split())), cost)
    # when the lines are read the program waits for soscope to print the rest
    waits = {what: cost["parts_ns"].get(what, 0) for what in ("reader", "print", "ring", "start")}
    assert waits["reader"] >= 500_000_000, cost
    assert cost["waited_for"] == max(waits, key=lambda what: waits[what]), cost
    assert cost["waited_ns"] >= 1_000_000_000


# How long a thread has had a processor for its calls: what keeps them waiting is not in it.
WORKER = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

static void *volatile kept;
static volatile unsigned letter = 'a';
static unsigned sum;

#define CALLS(function) static void __attribute__((noinline)) calls_##function(void) \
    { sum += function(letter); }
CALLS(towupper) CALLS(towlower) CALLS(iswalpha) CALLS(iswdigit)
CALLS(iswspace) CALLS(iswupper) CALLS(iswlower) CALLS(iswpunct)
static void (*const by_turns[])(void) = {
    calls_towupper, calls_towlower, calls_iswalpha, calls_iswdigit,
    calls_iswspace, calls_iswupper, calls_iswlower, calls_iswpunct};

static uint64_t had(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void __attribute__((noinline)) allocate(int deep)
{
    if (deep) {
        allocate(deep - 1);
        __asm__ volatile("");
        return;
    }
    kept = malloc(100);
    free(kept);
}

int main(int count, char **words)
{
    int calls = atoi(words[2]);
    uint64_t begin = had();
    mbstate_t state;
    memset(&state, 0, sizeof(state));
    if (words[1][0] == 'm')
        for (int i = 0; i < calls; i++)
            allocate(i & 15);
    else if (words[1][0] == 't') // in an order that no processor foresees
        for (uint32_t i = 0, chance = 1; i < calls; i++) {
            chance = chance * 1664525 + 1013904223;
            by_turns[chance >> 29]();
        }
    else if (words[1][0] == 'r')
        for (int i = 0; i < calls; i++)
            calls_towupper();
    else
        for (int i = 0; i < calls; i++)
            mbrtowc(0, "a", 1, &state);
    printf("%llu\n", (unsigned long long)(had() - begin));
    return count < 0 || sum == 1;
}
"""


def added(command: list[str], cost_of: Callable[[], dict[str, Any]], words: list[str]) -> float:
    """Return what is said of the work for calls, by how much more time the program had."""
    program = str(build.made({"worker.c": WORKER}, "gcc -O1 worker.c -o worker") / "worker")
    ratios: list[float] = []
    for _ in range(3):
        plain = int(run([program, *words]).stdout)
        done = run([*SOSCOPE[:-1], *command, "--", program, *words])
        assert done.returncode == 0, done.stderr
        cost = cost_of()
        parts = cost["parts_ns"]
        said: int = cost["calls_ns"] + parts.get("chunks", 0) + parts.get("asking", 0)
        ratios.append(said / (int(done.stdout) - plain))
    return median(ratios)


def of_recording(path: Path) -> Callable[[], dict[str, Any]]:
    def cost() -> dict[str, Any]:
        with RecordingFile.open(path) as recording:
            said: dict[str, Any] = (recording.end or {})["cost"]
        path.unlink()
        return said

    return cost


def test_what_it_takes_to_keep_arguments_is_in_the_cost(tmp_path: Path) -> None:
    path = tmp_path / "run.sosr"
    command = ["trace", "-q", "--record", str(path), "--buffer", "64M"]
    assert 0.7 < added(command, of_recording(path), ["wide", "200000"]) < 1.4


@pytest.mark.parametrize("buffer", ["1M", "64M"])
def test_what_it_takes_to_record_calls_is_in_the_cost(buffer: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sosr"  # much memory comes for the first time, or little again and again
    command = ["trace", "-q", "--record", str(path), "--buffer", buffer]
    ratio = added(command, of_recording(path), ["row", "1000000"])
    assert 0.7 < ratio < 1.5, ratio


def of_summary(path: Path) -> Callable[[], dict[str, Any]]:
    def cost() -> dict[str, Any]:
        said: dict[str, Any] = json.loads(path.read_text())["cost"]
        return said

    return cost


@pytest.mark.parametrize("order", ["row", "turns"])
def test_what_it_takes_to_time_calls_is_in_the_cost(order: str, tmp_path: Path) -> None:
    path = tmp_path / "summary"
    command = ["trace", "-q", "-c", "--json", "-o", str(path)]
    ratio = added(command, of_summary(path), [order, "2000000"])
    assert 0.7 < ratio < 1.5, ratio


def test_what_it_takes_to_record_blocks_is_in_the_cost(tmp_path: Path) -> None:
    path = tmp_path / "run.sosr"
    command = ["mem", "run", "-q", "--blocks", "-o", str(path)]
    ratio = added(command, of_recording(path), ["malloc", "1000000"])
    assert 0.6 < ratio < 1.5, ratio


SAMPLED = """
import time
begin, had = time.monotonic_ns(), time.thread_time_ns()
for _ in range(6_000_000):
    pass
print(time.monotonic_ns() - begin - (time.thread_time_ns() - had))
"""


def test_stops_for_samples_are_in_the_cost(tmp_path: Path) -> None:
    path = tmp_path / "run.sosr"
    command = ["prof", "run", "-q", "--sample", "500", "-o", str(path)]
    done = run([*SOSCOPE[:-1], *command, "--", sys.executable, "-c", SAMPLED])
    assert done.returncode == 0, done.stderr
    cost = of_recording(path)()
    assert 0 < cost["parts_ns"]["stops"] <= int(done.stdout) + SLACK


def test_a_wait_for_a_look_at_objects_is_in_the_cost(tmp_path: Path) -> None:
    path = tmp_path / "run.sosr"
    command = ["mem", "run", "-q", "-o", str(path)]
    kept = "kept = [[i] for i in range(300_000)]"
    done = run([*SOSCOPE[:-1], *command, "--", sys.executable, "-c", kept])
    assert done.returncode == 0, done.stderr
    cost = of_recording(path)()
    assert cost["waited_for"] == "look"
    assert 0 < cost["parts_ns"]["look"] <= cost["ran_ns"]


# It executes itself again and again, on a processor that children of its own keep busy. In the end
# it says, in ns, how long it stood still meanwhile, how long it ran, and how long it had stood
# before the first time.
AGAIN = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void keep_busy(void)
{
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(sched_getcpu(), &cpu);
    sched_setaffinity(0, sizeof(cpu), &cpu);
    for (int i = 0; i < 2; i++)
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            close(1);
            close(2);
            for (;;)
                __asm__ volatile("");
        }
    if (nice(10) < 0) // so that it waits for them
        _exit(2);
}

// Returns when the process began, in ns: up to a tick before it did.
static int64_t began(void)
{
    char text[512] = "", *word = text;
    int fd = open("/proc/self/stat", O_RDONLY);
    if (read(fd, text, sizeof(text) - 1) < 0)
        _exit(2);
    close(fd);
    word = strrchr(text, ')') + 1;
    for (int i = 0; i < 19; i++)
        word = strchr(word + 1, ' ');
    return strtoll(word, 0, 10) * (1000000000ll / sysconf(_SC_CLK_TCK));
}

int main(int count, char **words)
{
    char text[96] = "", passed[5][24], *rest;
    int64_t known[5] = {0}; // when it executed; what it had run, had been queued, and stood by then
    struct timespec at;
    for (int i = 2; i < count; i++)
        known[i - 2] = atoll(words[i]);
    if (count == 2) {
        keep_busy();
        known[0] = began();
    }
    clock_gettime(CLOCK_BOOTTIME, &at);
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    if (read(fd, text, sizeof(text) - 1) < 0)
        return 1;
    close(fd);
    int64_t now[5] = {at.tv_sec * 1000000000ll + at.tv_nsec}, first;
    now[1] = strtoull(text, &rest, 10);
    now[2] = strtoull(rest, &rest, 10);
    int64_t stood = now[0] - known[0] - (now[1] - known[1]) - (now[2] - known[2]);
    now[3] = count > 2 ? known[3] + stood : 0;
    now[4] = count > 2 ? known[4] : stood;
    int left = atoi(words[1]);
    if (!left)
        return printf("%ld %ld %ld\n", (long)now[3], (long)now[1], (long)now[4]) < 0;
    char *next[8] = {words[0], text, passed[0], passed[1], passed[2], passed[3], passed[4]};
    for (int i = 0; i < 5; i++)
        snprintf(passed[i], sizeof(passed[i]), "%ld", (long)now[i]);
    snprintf(text, sizeof(text), "%d", left - 1);
    execv("/proc/self/exe", next);
    return 1;
}
"""


def test_what_a_program_waits_for_a_processor_is_not_in_the_cost_of_its_start(
    tmp_path: Path,
) -> None:
    program = str(build.made({"again.c": AGAIN}, "gcc -O1 again.c -o again") / "again")
    path, turns = tmp_path / "summary", 8
    command = [*SOSCOPE, "-q", "-c", "--json", "-o", str(path)]
    done = run([*command, "--", program, str(turns)])
    assert done.returncode == 0, done.stderr
    stood, ran, first = map(int, done.stdout.split())
    parts = of_summary(path)()["parts_ns"]
    said = stood, ran, first, parts
    assert 0.8 * stood <= parts["start"] + parts.get("exec", 0) + SLACK, said
    assert parts["start"] <= 1.2 * (stood + ran + first) + SLACK, said
