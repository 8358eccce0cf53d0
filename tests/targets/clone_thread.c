// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-stack-protector; ldflags=-pthread
// Threads made by a raw clone: one shares its parent's thread pointer, which is
// the key of per-thread state, while both make hooked calls.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { CALLS = 20000, SIZE = 65536 };

static volatile int tid;

// Runs without a thread pointer of its own: nothing of libc.
static int body(void *argument)
{
	int x = 0;
	for (int i = 0; i < CALLS; i++)
		x = f0(x);
	*(int *)argument = x;
	for (;;) // SYS_exit: this thread alone
		truth_sys(60, 0, 0, 0);
	return 0;
}

int main(void)
{
	int results[4] = {0}, x = 0;
	for (int i = 0; i < 4; i++) {
		char *stack =
			mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(stack != MAP_FAILED);
		tid = 1;
		int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			    CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
		int made = clone(body, stack + SIZE - 64, flags, &results[i], &tid, 0, &tid);
		CHECK(made > 0);
		for (int n = 0; n < CALLS; n++)
			x = f0(x);
		for (int now; (now = tid) != 0;)
			truth_sys(SYS_futex, (long)&tid, FUTEX_WAIT, now);
		CHECK(results[i] == CALLS);
	}
	truth_calls("f0", 8 * CALLS);
	printf("clone threads %d\n", x);
	return 0;
}
