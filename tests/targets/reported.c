// SPDX-License-Identifier: Apache-2.0
// target: libs=reported; ldflags=-pthread; status=3
// Calls of a library by several threads, each of which says how many it made: reported TIMES THREADS.
// TIMES 0: they go on until a line can be read, and end with 4 if anything is other than before.
#define _GNU_SOURCE
#include "reported.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 16, DEEP = 500 };

static unsigned long own_hooks;

// the hook that has to be the program's own
void __cyg_profile_func_enter_bare(void);
void __cyg_profile_func_enter_bare(void)
{
	__atomic_fetch_add(&own_hooks, 1, __ATOMIC_RELAXED);
}

static unsigned times;
static int is_over, is_wrong;

static void *go_on(void *number)
{
	struct counts first = {0};
	uint64_t result = fib(&first, 12);

	(void)number;
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		struct counts again = {0};

		if (fib(&again, 12) != result || again.fib != first.fib)
			__atomic_store_n(&is_wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

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
		pthread_create(&threads[i], NULL, times ? work : go_on, (void *)i);
	if (times) {
		work(NULL);
	} else {
		(void)getchar();
		__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	}
	for (uintptr_t i = 1; i < count && i < MOST; i++)
		pthread_join(threads[i], NULL);
	if (own_hooks)
		printf("{\"hooks\": %lu}\n", own_hooks);
	return is_wrong ? 4 : 3;
}
