// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// prctl(PR_SET_TSC): rdtsc faults from here on, and later is allowed again.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <sys/prctl.h>

COUNTED(f0);

int main(void)
{
	int x = 0;
	for (int i = 0; i < 100; i++)
		x = CALL(f0, x);
	CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
	for (int i = 0; i < 1000; i++)
		x = CALL(f0, x);
	CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
	for (int i = 0; i < 100; i++)
		x = CALL(f0, x);
	REPORT(f0);
	printf("tsc %d\n", x);
	return 0;
}
