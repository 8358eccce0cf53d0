// SPDX-License-Identifier: Apache-2.0
// target: select=fread@MAIN
// coroutines COUNT KIB: coroutines whose stacks lie KIB kilobytes apart. Each reads from a
// stream that switches to the others inside fread, so all of them are in it at once, and
// says what it read.
#define _GNU_SOURCE
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 65536, MOST = 1024, ROUNDS = 3 };

COUNTED(fread);

static ucontext_t home, contexts[MOST];

static ssize_t fill(void *cookie, char *buffer, size_t size)
{
	int number = (int)(long)cookie;

	CHECK(size >= 8);
	CHECK(swapcontext(&contexts[number], &home) == 0); // the others' turn
	return snprintf(buffer, size, "<%04d>", number);
}

static void body(int number)
{
	FILE *stream =
		fopencookie((void *)(long)number, "r", (cookie_io_functions_t){.read = fill});

	CHECK(stream);
	for (int round = 0; round < ROUNDS; round++) {
		char text[8] = "";

		CHECK(CALL(fread, text, 1, 6, stream) == 6);
		printf("read %s\n", text);
	}
	for (;;)
		CHECK(swapcontext(&contexts[number], &home) == 0);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 20;
	size_t apart = (argc > 2 ? strtoul(argv[2], NULL, 0) : 128) << 10;
	char *stacks = mmap(0, (size_t)count * apart, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(count <= MOST && stacks != MAP_FAILED);
	for (int i = 0; i < count; i++) {
		char *stack = stacks + (size_t)i * apart;

		CHECK(mprotect(stack, STACK, PROT_READ | PROT_WRITE) == 0);
		CHECK(getcontext(&contexts[i]) == 0);
		contexts[i].uc_stack.ss_sp = stack;
		contexts[i].uc_stack.ss_size = STACK;
		makecontext(&contexts[i], (void (*)(void))body, 1, i);
	}
	for (int round = 0; round <= ROUNDS; round++)
		for (int i = 0; i < count; i++)
			CHECK(swapcontext(&home, &contexts[i]) == 0);
	REPORT(fread);
	printf("coroutines %d\n", count);
	return 0;
}
