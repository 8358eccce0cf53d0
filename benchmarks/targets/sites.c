// SPDX-License-Identifier: Apache-2.0
// Calls one function from 16 or from 16400 places, then says "ready" and waits for a line:
// somebody wants to look at its memory.
#include <stdio.h>
#include <stdlib.h>

#define CALL1 sum += labs(sum);
#define CALL4 CALL1 CALL1 CALL1 CALL1
#define CALL16 CALL4 CALL4 CALL4 CALL4
#define CALL64 CALL16 CALL16 CALL16 CALL16
#define CALL256 CALL64 CALL64 CALL64 CALL64
#define CALL1024 CALL256 CALL256 CALL256 CALL256
#define CALL4096 CALL1024 CALL1024 CALL1024 CALL1024

int main(int argc, char **argv)
{
	long sum = argc;

	(void)argv;
	CALL16
	if (argc > 1) {
		CALL4096
		CALL4096
		CALL4096
		CALL4096
	}
	printf("ready %d\n", sum != 0);
	fflush(stdout);
	return getchar() == EOF;
}
