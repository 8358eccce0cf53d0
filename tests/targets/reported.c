// SPDX-License-Identifier: Apache-2.0
// target: libs=reported; ldflags=-pthread; status=3
// Calls of a library by several threads, each of which says how many it made: reported TIMES THREADS
#define _GNU_SOURCE
#include "reported.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 16, DEEP = 500 };

static unsigned times;

static void *work(void *number)
{
	struct counts c = {0};
	uint64_t sum = 0;

	for (unsigned i = 0; i < times; i++)
		sum += mid(&c, i);
	sum += leaf(&c, 1);
	sum += fib(&c, 15 + (unsigned)(uintptr_t)number);
	sum += even(&c, DEEP);
	printf("{\"tid\": %ld, \"sum\": %lu, \"leaf\": %lu, \"mid\": %lu, \"fib\": %lu, \"even\": "
	       "%lu, \"odd\": %lu}\n",
	       syscall(SYS_gettid), sum, c.leaf, c.mid, c.fib, c.even, c.odd);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST];
	unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 1;

	times = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	for (uintptr_t i = 1; i < count && i < MOST; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	work(NULL);
	for (uintptr_t i = 1; i < count && i < MOST; i++)
		pthread_join(threads[i], NULL);
	return 3;
}
