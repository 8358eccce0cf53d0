// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// many_calls N: makes calls for as long as it takes, and says what it found out:
// for tests that kill somebody meanwhile.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>

COUNTED(f0);
COUNTED(fstr);

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 20000;
	unsigned sum = 0;
	puts("begin");
	fflush(stdout);
	for (long i = 0; i < count; i++) {
		sum = sum * 31u + (unsigned)CALL(f0, (int)(i & 0xffff));
		if (i % 16 == 0)
			sum += (unsigned char)*CALL(fstr, "a string");
	}
	REPORT(f0);
	REPORT(fstr);
	printf("sum %u\n", sum);
	return 0;
}
