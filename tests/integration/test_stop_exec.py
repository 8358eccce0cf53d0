# SPDX-License-Identifier: Apache-2.0
"""Stopping the threads of a process while one that is not its first executes a program."""

from __future__ import annotations

import itertools
import os
import subprocess
import time

import pytest

from soscope.entry.stop.stopping import Threads
from soscope.proc import status
from tests.support.processes import attached
from tests.support.processes.launching import compiled

# Executes itself from a thread, again and again; tells in the end that nothing has hindered it.
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

	words = own;
	if (!getenv("AGAIN")) {
		setenv("AGAIN", "1", 1);
		puts("ready");
		fflush(stdout);
	}
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


def assert_stops_hold(process: subprocess.Popen[str], seconds: float) -> None:
    end = time.monotonic() + seconds
    threads = Threads(process.pid)
    while time.monotonic() < end:
        threads.stop(limit=30)  # a busy machine has it wait for its turn
        try:
            assert set(threads.registers()) == set(threads.stopped)
            assert set(threads.stopped) >= set(status.threads(process.pid))
        finally:
            threads.resume()
    assert attached.finish(process)[0] == 7


def _look_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass between a list of threads and the look at the first of them, half the times."""
    pauses = itertools.cycle([0, 0.004, 0, 0.002, 0, 0.006])
    listdir = os.listdir

    def late(path: str | int) -> list[str]:
        found = listdir(path)
        time.sleep(next(pauses))
        return found

    monkeypatch.setattr(os, "listdir", late)


def test_no_thread_is_taken_for_stopped_that_runs_another_program() -> None:
    with attached.running([compiled("again.c", text=_AGAIN), "8"]) as process:
        assert_stops_hold(process, 5)


def test_a_program_is_executed_while_the_other_threads_are_let_go_of() -> None:
    """They are killed then, under the hands of who stopped them; exec(2) waits for their end."""
    with attached.running([compiled("again.c", text=_AGAIN), "100", "first"]) as process:
        assert_stops_hold(process, 5)


def test_it_has_not_ended_whose_threads_are_all_others_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with attached.running([compiled("again.c", text=_AGAIN), "8"]) as process:
        _look_late(monkeypatch)
        assert_stops_hold(process, 3)


def test_a_living_thread_is_found_where_the_leader_comes_and_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with attached.running([compiled("again.c", text=_AGAIN), "8"]) as process:
        _look_late(monkeypatch)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert status.living_thread(process.pid)
        assert not status.has_ended(process.pid)
        assert attached.finish(process)[0] == 7
    assert status.has_ended(process.pid)
