// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; compiler=gcc; ldflags=-Wl,-z,execstack
// Nested functions: a static chain in r10, and trampolines on the stack that
// libleaf calls back.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>

COUNTED(f0);
COUNTED(fcall);

__attribute__((noinline)) static int run(int base)
{
	int seen = 0;
	int inner(int x)
	{
		seen += CALL(f0, x);
		return base + x;
	}
	int sum = 0;
	for (int i = 0; i < 100; i++)
		sum += CALL(fcall, inner, i);
	// the chain register itself through a slot
	sum += ((void)COUNT(f0), __builtin_call_with_static_chain(f0(7), &seen));
	return sum + seen;
}

int main(void)
{
	printf("nested %d %d\n", run(5), run(1000));
	REPORT(f0);
	REPORT(fcall);
	return 0;
}
