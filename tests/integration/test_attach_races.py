# SPDX-License-Identifier: Apache-2.0
"""What happens to a process, and who else looks at it, while soscope goes in."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from soscope.entry import ptrace
from tests.support.processes import attached
from tests.support.processes.launching import compiled
from tests.support.targets import build


def test_of_two_at_once_one_is_told_of_the_other() -> None:
    with attached.running([build.program("attached"), "3"]) as process:
        before = attached.snapshot(process.pid)
        for number in range(8):
            lasts = f"{300 + 100 * (number % 3)}ms"
            both = [attached.start(process.pid, "-c", "--duration", lasts) for _ in range(2)]
            said = [one.communicate(timeout=60)[1] for one in both]
            assert sorted(one.returncode for one in both) in ([0, 0], [0, 1]), said
            for one, text in zip(both, said, strict=True):
                other = both[one is both[0]]
                assert one.returncode == 0 or f"soscope {other.pid} traces it" in text
            assert attached.differences(before, process.pid) == []
        assert "nothing to undo" in attached.detach(process.pid).stdout
        assert attached.finish(process) == (7, "wrong 0\n", "")


MANY = """
import threading, time
for _ in range(4):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


def is_traced(pid: int) -> bool:
    return "\nTracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.every(2)
@pytest.mark.parametrize("milliseconds", [0, 1, 2, 4, 8, 16])
def test_one_that_is_killed_while_the_agent_goes_in(milliseconds: int) -> None:
    with attached.running([sys.executable, "-c", MANY]) as process:
        tracer = attached.start(process.pid, "-c")
        end = time.monotonic() + 20
        while not is_traced(process.pid) and time.monotonic() < end:
            pass  # looks again at once: the moment counts
        time.sleep(milliseconds / 1000)
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
        said = tracer.communicate(timeout=20)[1]
        assert tracer.returncode in (0, 1, 4, 137)
        assert "bug" not in said, said


WAITS = r"""
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static void *wait_for_ever(void *none)
{
	for (;;)
		pause();
	return none;
}

int main(void)
{
	struct timespec began, ended;
	struct epoll_event event;
	pthread_t thread;
	int found, poll = epoll_create1(0);

	pthread_create(&thread, 0, wait_for_ever, 0);
	puts("ready");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &began);
	found = epoll_wait(poll, &event, 1, 5000);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%d %d %ld\n", found, found ? errno : 0,
		(ended.tv_sec - began.tv_sec) * 10 + (ended.tv_nsec - began.tv_nsec) / 100000000);
	return 0;
}
"""


def test_a_refused_one_goes_on_waiting() -> None:
    """One of its threads is traced by somebody else: all are let go of, as if nothing had been."""
    with attached.running([compiled("waits.c", "-pthread", text=WAITS)]) as process:
        time.sleep(1.5)  # by so much a wait that begins again is longer
        (other,) = {int(one) for one in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}
        ptrace.seize(other, 0)
        done = attached.trace(process.pid, "-c")
        assert done.returncode in (1, 3), done.stderr
        assert process.stdout is not None
        result, number, tenths = map(int, process.stdout.readline().split())
        os.waitpid(other, ptrace.WALL)  # it ends with the others, and that is ours to hear
        assert (result, number) == (0, 0)
        assert 49 <= tenths < 64
