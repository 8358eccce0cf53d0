// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-stack-protector
// Strict seccomp: only read, write, exit and sigreturn from here on, and no rdtsc.
// Hooked calls, some of them for the first time, go on.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>

COUNTED(f0);
COUNTED(f1);
COUNTED(f8);

int main(void)
{
	int x = 0;
	for (int i = 0; i < 1000; i++)
		x = CALL(f0, x);
	truth_hold();
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
	for (int i = 0; i < 100000; i++)
		x = CALL(f0, x);
	for (int i = 0; i < 1000; i++)
		x = CALL(f1, x);
	CHECK(CALL(f8, 1, 2, 3, 4, 5, 6, 7, 8) == 204);
	REPORT(f0);
	REPORT(f1);
	REPORT(f8);
	// the process way out, exit_group, is not allowed; the thread's is
	truth_sys(TRUTH_WRITE, 1, (long)"strict\n", 7);
	truth_sys(60, x == 103000 ? 0 : 1, 0, 0);
	return 1;
}
