// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Calls that wait for nobody, and a signal handler that makes such calls in the middle of
// long ones, in two threads.
#define _GNU_SOURCE
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

COUNTED(memset);
COUNTED(labs);
COUNTED(strlen);

enum { BYTES = 32 << 20, ROUNDS = 40 };

static volatile long sum;

static void on_signal(int number)
{
	sum += CALL(labs, -(long)number);
}

static void *work(void *arg)
{
	char *bytes = malloc(BYTES);

	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		CALL(memset, bytes, 'a' + i % 26, BYTES);
		bytes[i] = 0;
		if (CALL(strlen, bytes) != (size_t)i)
			abort();
	}
	free(bytes);
	return 0;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	pthread_t other;

	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &often, 0);
	pthread_create(&other, 0, work, 0);
	work(0);
	pthread_join(other, 0);
	setitimer(ITIMER_REAL, &never, 0);
	REPORT(memset);
	REPORT(labs);
	REPORT(strlen);
	puts("done");
	return 0;
}
