# SPDX-License-Identifier: Apache-2.0
"""Stopping the threads of a process while one that is not its first executes a program."""

from __future__ import annotations

import time

from soscope.process import status
from soscope.process.stop.stopping import Threads
from tests.support import attached
from tests.support.launching import compiled

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
	pthread_t thread;

	(void)count;
	words = own;
	if (!getenv("AGAIN")) {
		setenv("AGAIN", "1", 1);
		puts("ready");
		fflush(stdout);
	}
	for (int i = 0; i < 8; i++)
		pthread_create(&thread, 0, wait_for_ever, 0);
	pthread_create(&thread, 0, again, 0);
	poll(&input, 1, -1);
	_exit(7);
}
"""


def test_no_thread_is_taken_for_stopped_that_runs_another_program() -> None:
    with attached.running([compiled("again.c", text=_AGAIN)]) as process:
        end = time.monotonic() + 5
        threads = Threads(process.pid)
        while time.monotonic() < end:
            threads.stop()
            try:
                assert set(threads.registers()) == set(threads.stopped)
                assert set(threads.stopped) >= set(status.threads(process.pid))
            finally:
                threads.resume()
        assert attached.finish(process)[0] == 7
