// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Hooked calls, first ones among them, on the smallest signal stack there is, with
// a page below it that cannot be touched.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

COUNTED(f0);
COUNTED(f1);
COUNTED(f2);
COUNTED(f8);

static volatile long handled;

static void on_signal(int number)
{
	int x = CALL(f0, number); // the first call of f0 in this program
	x += CALL(f1, x);
	CALL(f8, 1, 2, 3, 4, 5, 6, 7, x);
	handled++;
}

int main(void)
{
	// what the kernel says it needs for its own frame, and 1 KiB for the handler
	size_t least = getauxval(AT_MINSIGSTKSZ);
	if (least < (size_t)MINSIGSTKSZ)
		least = MINSIGSTKSZ;
	size_t size = (least + 1024 + 63) & ~63ul, pages = (size + 4095) & ~4095ul;
	char *area =
		mmap(0, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED && mprotect(area, 4096, PROT_NONE) == 0);
	stack_t stack = {.ss_sp = area + 4096, .ss_size = size};
	CHECK(sigaltstack(&stack, 0) == 0);

	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &action, 0);
	for (int i = 0; i < 1000; i++) {
		raise(SIGUSR1);
		CALL(f2, i);
	}
	REPORT(f0);
	REPORT(f1);
	REPORT(f2);
	REPORT(f8);
	printf("altstack %ld\n", handled);
	return 0;
}
