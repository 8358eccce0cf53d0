# SPDX-License-Identifier: Apache-2.0
"""A patched entry, and its return, leave the registers alone that callers know to be left alone.

By -fpatchable-function-entry gcc gives up that knowledge, and by the attribute it does not: then
it keeps values in r11, which every call may lose, across the call of a function that does not.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.processes import attached, reported
from tests.support.processes.run import soscope
from tests.support.targets.build import made
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

PROGRAM = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile sig_atomic_t phase;
static void on(int number) { (void)number; phase++; }
static __attribute__((noinline, noclone, patchable_function_entry(5))) long leaf(long x)
{
    while (phase == 1)
        ;
    for (int i = 0; i < 400; i++) /* or a log has millions of calls */
        __asm__ volatile("");
    return x * 3 + 1;
}
static __attribute__((noinline)) long
caller(long a, long b, long c, long d, long e, long f, long count)
{
    long wrong = 0;
    for (long i = 0; i < count && phase < 2; i++) {
        long g = a ^ i, h = b + i, k = c - i, l = d * i, m = e | i, o = f & i, p = a + b * i;
        long q = c + d * i, before = g * h + k * l + m * o + p * q;
        __asm__("" : "+r"(g), "+r"(h), "+r"(k), "+r"(l), "+r"(m), "+r"(o), "+r"(p), "+r"(q));
        wrong += leaf(i) != i * 3 + 1;
        wrong += g * h + k * l + m * o + p * q != before;
    }
    return wrong;
}
int main(int argc, char **argv)
{
    signal(SIGUSR1, on);
    printf("%ld\\n", caller(1, 2, 3, 4, 5, 6, atol(argv[argc - 1])));
    return 3;
}
"""


@pytest.fixture(scope="module")
def program() -> str:
    return str(made({"kept.c": PROGRAM}, "gcc -O2 -o kept kept.c") / "kept")


@pytest.mark.parametrize("mode", ["quiet", "count", "sample=4", "time", "log"])
def test_values_stay(program: str, mode: str) -> None:
    done = soscope("prof", "run", "-q", "--mode", mode, "--", program, "1000")
    assert (done.stdout, done.returncode) == ("0\n", 3)


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["time", "log"])
def test_values_stay_where_the_return_is_behind_the_end(program: str, mode: str) -> None:
    words = [sys.executable, "-m", "soscope", "prof", "attach", "--mode", mode, "-p"]
    pipe = subprocess.PIPE
    with subprocess.Popen([program, str(1 << 62)], stdout=pipe, text=True) as process:
        try:
            pid = process.pid
            reported.until_loaded(pid, "libc.so")
            with subprocess.Popen([*words, str(pid)], stdout=pipe, stderr=pipe, text=True) as watch:
                attached.assert_it_profiles(watch, pid)
                until(has_run(pid), "it calls", running=process)
                process.send_signal(signal.SIGUSR1)
                until(has_run(pid), "it stays in a call", running=process)
                watch.send_signal(signal.SIGINT)
                assert "leaf" in watch.communicate(timeout=limit())[0]
            process.send_signal(signal.SIGUSR1)
            out, _ = process.communicate(timeout=limit())
        finally:
            process.kill()
    assert (out, process.returncode) == ("0\n", 3)
