// SPDX-License-Identifier: Apache-2.0
// For each line of its input: calls labs() as often as is asked for, and prints µs a call.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	const long times = argc > 1 ? atol(argv[1]) : 1000;
	struct timespec start, end;
	volatile long sum = 0;

	puts("ready");
	fflush(stdout);
	while (getchar() == '\n') {
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (long i = 0; i < times; i++)
			sum += labs(-i);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%.3f\n", ((double)(end.tv_sec - start.tv_sec) * 1e9 +
				  (double)(end.tv_nsec - start.tv_nsec)) /
					 1e3 / (double)times);
		fflush(stdout);
	}
	return 0;
}
