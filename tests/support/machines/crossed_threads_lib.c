// SPDX-License-Identifier: Apache-2.0
// Counts its own calls, from however many threads they come.
#include <stdio.h>

static int called[2];

int together(int n)
{
	__atomic_fetch_add(&called[0], 1, __ATOMIC_RELAXED);
	return n;
}

int through(int (*run)(int), int n)
{
	__atomic_fetch_add(&called[1], 1, __ATOMIC_RELAXED);
	return run(n);
}

void account(void)
{
	fprintf(stderr, "together %d\nthrough %d\n", called[0], called[1]);
}
