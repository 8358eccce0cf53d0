// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; timeout=120; untimed=yes; runs=50000; soak=1000000
// So many levels of hooked calls on one big stack: entries without end, few call sites.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

COUNTED(fcall);
COUNTED(f0);

static __attribute__((noinline)) int down(int depth)
{
	if (!depth)
		return CALL(f0, 0);
	int result = CALL(fcall, down, depth - 1);
	__asm__ volatile("" ::: "memory");
	return result;
}

static void *run(void *argument)
{
	*(int *)argument = down(*(int *)argument);
	return 0;
}

int main(int argc, char **argv)
{
	int result = argc > 1 ? atoi(argv[1]) : 1000000;
	size_t size = 1ul << 30;
	void *stack = mmap(0, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, size);
	CHECK(pthread_create(&thread, &attributes, run, &result) == 0);
	pthread_join(thread, 0);
	REPORT(fcall);
	REPORT(f0);
	printf("recursion %d\n", result);
	return 0;
}
