// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; runs=5000; soak=100000
// Calls left by longjmp: so many times from inside a hooked call, and out of ten nested ones.
#include "leaf.h"
#include "truth.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

COUNTED(f0);
COUNTED(fcall);

static jmp_buf home;

static int out(int x)
{
	longjmp(home, CALL(f0, x) & 7 ? 1 : 2);
}

static int nest(int depth)
{
	return depth ? CALL(fcall, nest, depth - 1) : out(depth);
}

int main(int argc, char **argv)
{
	volatile int count = argc > 1 ? atoi(argv[1]) : 100000;
	volatile long sum = 0;
	for (volatile int i = 0; i < count; i++) {
		int how = setjmp(home);
		if (how == 0) {
			CALL(fcall, out, i);
			CHECK(!"came back");
		}
		sum += how;
	}
	for (volatile int i = 0; i < 1000; i++) {
		int how = setjmp(home);
		if (how == 0)
			nest(10);
		sum += how;
	}
	REPORT(f0);
	REPORT(fcall);
	printf("longjmp %ld\n", sum);
	return 0;
}
