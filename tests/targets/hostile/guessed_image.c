/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread allocates in code without unwind tables whose frame pointer leads to what looks like a frame: its
 * return address is in a library that another thread opens and closes all the time. Argument: the library.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 100, CALLS = 200000, CALL_SIZE = 5, PER_ROUND = 50 };

void *allocate_with(size_t size, void *frame);

/* no .cfi_startproc: no table has it */
__asm__(".text\n"
	".globl allocate_with\n"
	".type allocate_with, @function\n"
	"allocate_with:\n"
	"	push %rbp\n"
	"	mov %rsi, %rbp\n"
	"	call malloc@PLT\n"
	"	pop %rbp\n"
	"	ret\n"
	".size allocate_with, . - allocate_with\n");

static volatile uintptr_t first;
static volatile unsigned long calls;
static volatile int is_over;

static void *work(void *unused)
{
	while (!is_over) {
		uintptr_t frame[2] = {0, first + CALL_SIZE * (1 + calls % CALLS)};

		if (!first)
			continue;
		free(allocate_with(24, frame));
		calls++;
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2 || pthread_create(&thread, NULL, work, NULL))
		abort();
	for (int i = 0; i < ROUNDS; i++) {
		void *library = dlopen(argv[1], RTLD_NOW);
		unsigned long before = calls;

		if (!library)
			abort();
		first = (uintptr_t)dlsym(library, "many");
		while (calls < before + PER_ROUND)
			continue;
		if (dlclose(library))
			abort();
	}
	is_over = 1;
	pthread_join(thread, NULL);
	puts("alive");
	return 0;
}
