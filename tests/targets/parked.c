// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline -fno-optimize-sibling-calls; ldflags=-pthread
// Waits under hooked calls until its standard input ends: for debuggers, which look
// at its stack meanwhile.
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <unistd.h>

COUNTED(fcall);

int parked_inner(int x)
{
	char byte;
	puts("parked");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return x;
}

int parked_outer(int x)
{
	return CALL(fcall, parked_inner, x) + 1;
}

int main(void)
{
	int x = CALL(fcall, parked_outer, 1);
	REPORT(fcall);
	printf("woken %d\n", x);
	return 0;
}
