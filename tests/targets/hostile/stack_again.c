/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread ends deep in its stack, in the middle of an allocation. The next thread has the upper part of that
 * stack, and so the same thread pointer; the lower part has gone.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ROUNDS = 25, SIZE = 4 << 20, LOWER = 3 << 20, BLOCK = 8000 };

extern __thread int must_end;
static void *volatile block;

static void *ends(void *unused)
{
	volatile char *deep = alloca(LOWER + (SIZE - LOWER) / 2);

	deep[0] = 1;
	must_end = 1;
	block = valloc(BLOCK);
	return unused;
}

static void *begins(void *unused)
{
	block = malloc(BLOCK + 1);
	free(block);
	return unused;
}

static void run(void *(*function)(void *), char *stack, size_t size)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, size) ||
	    pthread_create(&thread, &attributes, function, NULL) || pthread_join(thread, NULL))
		abort();
}

int main(void)
{
	char *place = NULL;

	for (int i = 0; i < ROUNDS; i++) {
		char *stack = mmap(place, SIZE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0), -1, 0);

		if (stack == MAP_FAILED)
			abort();
		place = stack;
		run(ends, stack, SIZE);
		if (munmap(stack, LOWER))
			abort();
		run(begins, stack + LOWER, SIZE - LOWER);
	}
	puts("alive");
	return 0;
}
