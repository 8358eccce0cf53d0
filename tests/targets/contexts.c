// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; select=swapcontext@MAIN,getcontext@MAIN,makecontext@MAIN,f0@MAIN,fcall@MAIN
// Coroutines on stacks of 16 KiB, one of them directly below a page that cannot
// be touched; they switch inside hooked calls, not in the order they entered.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { COROUTINES = 8, SWITCHES = 500, STACK = 16384, PAGE = 4096 };

COUNTED(f0);
COUNTED(fcall);
COUNTED(getcontext);
COUNTED(makecontext);
COUNTED(swapcontext);

static ucontext_t home, contexts[COROUTINES];
static long sum;

static int inside(int number)
{
	sum += CALL(f0, number);
	CALL(swapcontext, &contexts[number], &home);
	return number;
}

static void body(int number)
{
	for (int i = 0; i < SWITCHES; i++)
		sum += CALL(fcall, inside, number);
}

int main(void)
{
	for (int i = 0; i < COROUTINES; i++) {
		char *stack = mmap(0, STACK + PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(stack != MAP_FAILED);
		CHECK(mprotect(stack + STACK, PAGE, PROT_NONE) == 0);
		CALL(getcontext, &contexts[i]);
		contexts[i].uc_stack.ss_sp = stack;
		contexts[i].uc_stack.ss_size = STACK;
		contexts[i].uc_link = &home;
		CALL(makecontext, &contexts[i], (void (*)(void))body, 1, i);
	}
	// in an order that is never the reverse of the last round's
	for (int turn = 0; turn <= SWITCHES; turn++)
		for (int i = 0; i < COROUTINES; i++)
			CALL(swapcontext, &home, &contexts[(i * 3 + turn) % COROUTINES]);

	ucontext_t again; // returns several times by itself
	volatile int times = 0;
	CALL(getcontext, &again);
	if (times++ < 100)
		setcontext(&again);
	REPORT(f0);
	REPORT(fcall);
	REPORT(getcontext);
	REPORT(makecontext);
	REPORT(swapcontext);
	printf("contexts %ld %d\n", sum, times);
	return 0;
}
