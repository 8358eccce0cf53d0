// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// shares [MILLISECONDS]: three threads run two functions each, in turns of their own lengths, and
// each says by its own clock for how long it has run in which: "THREAD NAME FUNCTION NANOSECONDS".
// The first thread waits for them all the time.
#define _GNU_SOURCE
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct share {
	const char *name;
	long often, seldom; // ns of a turn
	long times[2];
	long tid;
};

static long most = 500000000;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

__attribute__((noinline)) long often_called(long end)
{
	long time = now();
	while (time < end)
		for (volatile int i = 0; i < 200 || (time = now(), 0); i++)
			;
	return time;
}

__attribute__((noinline)) long seldom_called(long end)
{
	long time = now();
	while (time < end)
		for (volatile int i = 0; i < 200 || (time = now(), 0); i++)
			;
	return time;
}

static void *run(void *argument)
{
	struct share *share = argument;
	long time = now(), end = time + most, before;
	pthread_setname_np(pthread_self(), share->name);
	share->tid = syscall(SYS_gettid);
	while (time < end) {
		before = time;
		time = often_called(time + share->often);
		share->times[0] += time - before;
		before = time;
		time = seldom_called(time + share->seldom);
		share->times[1] += time - before;
	}
	return argument;
}

int main(int argc, char **argv)
{
	struct share shares[] = {
		{.name = "first", .often = 900000, .seldom = 100000},
		{.name = "second", .often = 100000, .seldom = 900000},
		{.name = "third", .often = 500000, .seldom = 500000},
	};
	pthread_t threads[3];
	if (argc > 1)
		most = atol(argv[1]) * 1000000;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], 0, run, &shares[i]) == 0);
	for (int i = 0; i < 3; i++) {
		void *back;
		CHECK(pthread_join(threads[i], &back) == 0);
	}
	for (int i = 0; i < 3; i++) {
		printf("%ld %s often_called %ld\n", shares[i].tid, shares[i].name,
		       shares[i].times[0]);
		printf("%ld %s seldom_called %ld\n", shares[i].tid, shares[i].name,
		       shares[i].times[1]);
	}
	return 0;
}
