# SPDX-License-Identifier: Apache-2.0
"""Stopping the threads of a process while one that is not its first executes a program."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from soscope.entry.stopping import Threads
from soscope.proc import status
from tests.support.processes import attached
from tests.support.processes.launching import compiled
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit, until

# Executes itself from a thread, again and again, and counts that in its environment; tells in the
# end that nothing has hindered it.
_AGAIN = r"""
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char **words;

static void *wait_for_ever(void *none)
{
	for (;;)
		pause();
	return none;
}

static void *again(void *none)
{
	usleep(2000);
	execv("/proc/self/exe", words);
	return none;
}

int main(int count, char **own)
{
	struct pollfd input = {0, POLLIN, 0};
	pthread_attr_t small;
	pthread_t thread;
	char times[16];

	words = own;
	if (!getenv("AGAIN")) {
		puts("ready");
		fflush(stdout);
	}
	snprintf(times, sizeof(times), "%d", getenv("AGAIN") ? atoi(getenv("AGAIN")) + 1 : 1);
	setenv("AGAIN", times, 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	if (count > 2) /* the first that is let go of, when its time is over */
		pthread_create(&thread, 0, again, 0);
	for (int i = 0; i < atoi(own[1]); i++)
		pthread_create(&thread, &small, wait_for_ever, 0);
	if (count == 2)
		pthread_create(&thread, 0, again, 0);
	poll(&input, 1, -1);
	_exit(7);
}
"""


def executions(pid: int) -> int:
    """Return how often a process has executed itself, 0 while it does."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return 0
    told = re.search(rb"\0AGAIN=(\d+)", b"\0" + text)
    return int(told[1]) if told else 0


def assert_stops_hold(process: subprocess.Popen[str], times: int) -> None:
    """Stop it so often, and until it has executed itself so often."""
    threads = Threads(process.pid)
    stops = itertools.count(1)

    def hold() -> bool:
        threads.stop(limit=limit(30))  # a busy machine has it wait for its turn
        try:
            assert set(threads.registers()) == set(threads.stopped)
            assert set(threads.stopped) >= set(status.threads(process.pid))
            return next(stops) >= times <= executions(process.pid)
        finally:
            threads.resume()

    until(hold, f"{times} stops and executions", pause=0.0)
    assert attached.finish(process)[0] == 7


def _look_late(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    """Have a process execute itself between a list of its threads and the look at the first.

    That is half the times. Where we trace some of them, they have a while to come to their ends:
    it executes nothing then before we have seen those.
    """
    listdir = os.listdir
    turns = itertools.cycle([False, True])

    def late(path: str | int) -> list[str]:
        names = listdir(path)
        if next(turns):
            before = executions(pid)
            until(
                lambda: executions(pid) > before or _is_traced(pid), "it executes itself", pause=0.0
            )
            if _is_traced(pid):
                time.sleep(0.004)
        return names

    monkeypatch.setattr(os, "listdir", late)


def _is_traced(pid: int) -> bool:
    with os.scandir(f"/proc/{pid}/task") as tasks:
        return any(_tracer_of(int(task.name)) for task in tasks)


def _tracer_of(tid: int) -> int:
    try:
        return attached.tracer_of(tid)
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended


@pytest.mark.parametrize("times", sizes(150, 500))
def test_no_thread_is_taken_for_stopped_that_runs_another_program(times: int) -> None:
    with attached.running([compiled("again.c", text=_AGAIN), "8"]) as process:
        assert_stops_hold(process, times)


@pytest.mark.parametrize("times", sizes(100, 300))
def test_a_program_is_executed_while_the_other_threads_are_let_go_of(times: int) -> None:
    """They are killed then, under the hands of who stopped them; exec(2) waits for their end."""
    with attached.running([compiled("again.c", text=_AGAIN), "100", "first"]) as process:
        assert_stops_hold(process, times)


@pytest.mark.parametrize("times", sizes(40, 100))
def test_it_has_not_ended_whose_threads_are_all_others_by_now(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached.running([compiled("again.c", text=_AGAIN), "8"]) as process:
        _look_late(monkeypatch, process.pid)
        assert_stops_hold(process, times)


@pytest.mark.parametrize("times", sizes(100, 300))
def test_a_living_thread_is_found_where_the_leader_comes_and_goes(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached.running([compiled("again.c", text=_AGAIN), "8"]) as process:
        _look_late(monkeypatch, process.pid)

        def is_found() -> bool:
            assert status.living_thread(process.pid)
            return executions(process.pid) >= times

        until(is_found, f"{times} executions", pause=0.0)
        assert not status.has_ended(process.pid)
        assert attached.finish(process)[0] == 7
    assert status.has_ended(process.pid)
