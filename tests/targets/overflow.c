// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-optimize-sibling-calls; untimed=yes
// A stack overflow in hooked recursion reaches the program's own handler, on its
// alternate stack, and the handler jumps out.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

COUNTED(f0);

static sigjmp_buf home;
static volatile int depth;
static char room[65536];
static long begun, done;

static int down(int x)
{
	volatile char fill[1024];
	fill[x & 1023] = 1;
	depth = x;
	begun++;
	int result = fcall(down, x + 1);
	return result + fill[0];
}

static void on_segv(int number)
{
	CALL(f0, number);
	siglongjmp(home, 1);
}

int main(void)
{
	stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
	sigaltstack(&stack, 0);
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_segv;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGSEGV, &action, 0);
	for (volatile int i = 0; i < 3; i++) {
		if (sigsetjmp(home, 1) == 0)
			down(1);
		CHECK(depth > 1000);
		done += depth;
	}
	// the last call of each round may have struck the end before its hook
	truth_range("fcall", begun - 3, begun);
	REPORT(f0);
	puts("overflow caught");
	return 0;
}
