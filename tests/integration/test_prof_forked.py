# SPDX-License-Identifier: Apache-2.0
"""A signal handler forks between any two instructions of a hook: the child goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.run import soscope
from tests.support.targets.build import made

PROGRAM = """
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOT_SEEN __attribute__((no_instrument_function))
static volatile int children, is_child;
__attribute__((noinline)) long leaf(long x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
__attribute__((noinline)) long deep(long n) { return n ? deep(n - 1) + leaf(n) : 1; }
NOT_SEEN static void forks(int number)
{
    int pid = is_child ? -1 : fork();
    (void)number;
    if (pid > 0)
        children++;
    else if (!pid)
        is_child = 1;
}
NOT_SEEN int main(void)
{
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    long wanted = deep(12), wrong = 0, after = 0;
    int status;
    signal(SIGALRM, forks);
    setitimer(ITIMER_REAL, &often, 0);
    while (children < 100 && after < 100) {
        wrong += deep(12) != wanted;
        after += is_child;
    }
    if (is_child)
        _exit(wrong != 0);
    setitimer(ITIMER_REAL, &never, 0);
    while (wait(&status) > 0)
        wrong += status != 0;
    printf("%ld\\n", wrong);
    return 4;
}
"""


@pytest.fixture(scope="module")
def program() -> str:
    command = "gcc -O1 -finstrument-functions -o forked forked.c"
    return str(made({"forked.c": PROGRAM}, command) / "forked")


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["count", "sample=4", "log"])
def test_children_are_well(program: str, mode: str, tmp_path: Path) -> None:
    words = ["-q", "--mode", mode, "-o", str(tmp_path / "rec.sosr"), "--when-full", "drop"]
    done = soscope("prof", "run", *words[: 5 if mode != "log" else None], "--", program)
    assert (done.stdout, done.returncode) == ("0\n", 4)
