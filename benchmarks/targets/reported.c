// SPDX-License-Identifier: Apache-2.0
// reported FUNCTION THREADS PARTS CALLS: calls a function of libreported.so, leaf, mid (with two
// of leaf inside) or fib, and prints nanoseconds of processor time a call, one number for each part
// of the first thread. Calls of functions inside are calls, too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

unsigned long leaf(unsigned long x);
unsigned long mid(unsigned long x);
unsigned long fib(unsigned n);

enum { DEPTH = 15, DEPTH_CALLS = 1973, MOST_PARTS = 4096, MOST_THREADS = 64 };

static const char *function;
static long parts, calls;
static volatile unsigned long sink;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static long part(void)
{
	unsigned long sum = 0;
	long i;

	if (!strcmp(function, "leaf")) {
		for (i = 0; i < calls; i++)
			sum += leaf(sum);
	} else if (!strcmp(function, "mid")) {
		for (i = 0; i < calls; i += 3)
			sum += mid(sum);
	} else {
		for (i = 0; i < calls; i += DEPTH_CALLS)
			sum += fib(DEPTH);
	}
	sink = sum;
	return i;
}

static void *work(void *first)
{
	static double results[MOST_PARTS];

	for (long i = 0; i < parts; i++) {
		double start = now();
		long made = part();

		if (first)
			results[i] = (now() - start) / (double)made;
	}
	for (long i = 0; first && i < parts; i++)
		printf("%.3f\n", results[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST_THREADS];
	long count = argc > 4 ? atol(argv[2]) : 0;

	if (count < 1 || count > MOST_THREADS || atol(argv[3]) > MOST_PARTS)
		return 2;
	function = argv[1];
	parts = atol(argv[3]);
	calls = atol(argv[4]);
	for (long i = 1; i < count; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	work(threads);
	for (long i = 1; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
