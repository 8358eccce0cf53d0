// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; runs=2,100000|8,25000|1000,50; soak=8,2000000
// threads N CALLS: N threads at once, each making CALLS calls of two functions
// through the same slots.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static long calls;
static pthread_barrier_t start;

static void *run(void *argument)
{
	int x = 0;
	pthread_barrier_wait(&start);
	for (long i = 0; i < calls; i++) {
		x = f0(x);
		x -= f1(0) - 2;
	}
	CHECK(x == calls);
	return argument;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 2;
	calls = argc > 2 ? atol(argv[2]) : 1000;
	pthread_t *threads = calloc((size_t)count, sizeof *threads);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	pthread_barrier_init(&start, 0, (unsigned)count);
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], &attributes, run, argv) == 0);
	for (int i = 0; i < count; i++) {
		void *back;
		CHECK(pthread_join(threads[i], &back) == 0);
		CHECK(back == argv);
	}
	truth_calls("f0", count * calls);
	truth_calls("f1", count * calls);
	printf("threads %d %ld\n", count, calls);
	return 0;
}
