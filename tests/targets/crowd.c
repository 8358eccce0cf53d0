// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// crowd N CALLS: N threads that make CALLS calls each and then wait for one another: none
// goes on, or ends, before all have been able to make theirs. Twice.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;
static pthread_barrier_t all;

static void *run(void *argument)
{
	for (int round = 0; round < 2; round++) {
		int x = 0;

		for (int i = 0; i < calls; i++)
			x = f0(x);
		CHECK(x == calls);
		pthread_barrier_wait(&all);
	}
	return argument;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 20;
	calls = argc > 2 ? atoi(argv[2]) : 30;
	pthread_t *threads = calloc((size_t)count, sizeof *threads);
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	pthread_barrier_init(&all, 0, (unsigned)count);
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], &attributes, run, argv) == 0);
	for (int i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	truth_calls("f0", 2L * count * calls);
	printf("crowd %d %d\n", count, calls);
	return 0;
}
