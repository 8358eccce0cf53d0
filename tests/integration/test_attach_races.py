# SPDX-License-Identifier: Apache-2.0
"""What happens to a process, and who else looks at it, while soscope goes in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from soscope.entry import ptrace
from tests.support.processes import attached, killed
from tests.support.processes.launching import compiled
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.time.lasting import Visited, assert_no_longer, await_half
from tests.support.time.patience import limit, until


@pytest.mark.parametrize("times", sizes(3, 8))
def test_of_two_at_once_one_is_told_of_the_other(times: int) -> None:
    with attached.running([build.program("attached"), "3"]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(times):
            both = [attached.start(process.pid, "-c") for _ in range(2)]
            until(partial(has_ended, *both), "one is refused")
            refused, other = sorted(both, key=lambda one: not has_ended(one))
            attached.wait_for_hooks(other)
            said = refused.communicate(timeout=limit())[1]
            assert refused.returncode == 1, said
            assert f"soscope {other.pid} traces it" in said
            other.send_signal(signal.SIGINT)
            said = other.communicate(timeout=limit())[1]
            assert other.returncode == 0, said
            assert attached.differences(before, process.pid) == []
        assert "nothing to undo" in attached.detach(process.pid).stdout
        assert attached.finish(process) == (7, "wrong 0\n", "")


def has_ended(*processes: subprocess.Popen[str]) -> bool:
    return any(one.poll() is not None for one in processes)


MANY = """
import threading, time
for _ in range(4):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("number", [1, 5, 20, 40, 60, 80])
def test_one_that_is_killed_while_the_agent_goes_in(number: int, tmp_path: Path) -> None:
    with attached.running([sys.executable, "-c", MANY]) as process:
        words = ["trace", "-c", "-p", str(process.pid)]
        tracer = killed.start(tmp_path / "log", words, number, victim=process.pid)
        said = tracer.communicate(timeout=limit())[1]
        assert process.wait(limit()) == -signal.SIGKILL
        assert tracer.returncode in (0, 1, 4, 137)
        assert "bug" not in said, said


WAITS = r"""
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static void *wait_for_ever(void *none)
{
	for (;;)
		pause();
	return none;
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(int argc, char **argv)
{
	int timeout = atoi(argv[1]) * 1000, number;
	long long began, ended;
	struct epoll_event event;
	pthread_t thread;
	int found, poll = epoll_create1(0);

	pthread_create(&thread, 0, wait_for_ever, 0);
	puts("ready");
	fflush(stdout);
	began = now();
	found = epoll_wait(poll, &event, 1, timeout);
	number = found ? errno : 0;
	ended = now();
	printf("%d %d %lld %lld\n", found, number, began, ended);
	return 0;
}
"""


def test_a_refused_one_goes_on_waiting() -> None:
    """One of its threads is traced by somebody else: all are let go of, as if nothing had been."""

    def visit(seconds: int) -> list[Visited]:
        program = compiled("waits.c", "-pthread", text=WAITS)
        with attached.running([program, str(seconds)]) as process:
            (other,) = {int(one) for one in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}
            ptrace.seize(other, 0)
            came = await_half(seconds)
            done = attached.trace(process.pid, "-c")
            left = time.monotonic_ns()
            assert process.stdout is not None
            result, number, began, ended = map(int, process.stdout.readline().split())
            os.waitpid(other, ptrace.WALL)  # it ends with the others, and that is ours to hear
        assert done.returncode in (1, 3) or ended < left, done.stderr
        assert (result, number) == (0, 0)
        return [Visited(began, came, left, ended)]

    assert_no_longer(visit)
