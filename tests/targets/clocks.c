// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread; cflags=-fno-builtin
// clocks THREADS CALLS MICROSECONDS: each thread calls usleep, and reads the clocks around
// it. At the end a line for each call says: the thread's id, CLOCK_REALTIME before and
// after, CLOCK_MONOTONIC_RAW before and after.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct span {
	int tid;
	long long real[2], raw[2];
};

static int calls, microseconds;

static long long now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void *work(void *argument)
{
	struct span *span = argument;
	for (int i = 0; i < calls; i++, span++) {
		span->tid = gettid();
		span->real[0] = now(CLOCK_REALTIME);
		span->raw[0] = now(CLOCK_MONOTONIC_RAW);
		usleep(microseconds);
		span->raw[1] = now(CLOCK_MONOTONIC_RAW);
		span->real[1] = now(CLOCK_REALTIME);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2;
	calls = argc > 2 ? atoi(argv[2]) : 10;
	microseconds = argc > 3 ? atoi(argv[3]) : 100;
	pthread_t thread[threads];
	struct span *spans = calloc(threads * calls, sizeof(*spans));
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, work, spans + i * calls);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < threads * calls; i++)
		printf("%d %lld %lld %lld %lld\n", spans[i].tid, spans[i].real[0], spans[i].real[1],
		       spans[i].raw[0], spans[i].raw[1]);
	free(spans);
	return 0;
}
