// SPDX-License-Identifier: Apache-2.0
// Calls a function of a library again and again; prints what a call takes, in microseconds, for
// each of the parts. It has SLOTS slots, and all but one are called once.

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ONE(number) extern long f##number(long);
#include "emulated_names.h"
#undef ONE

int main(int argc, char **argv)
{
	long parts = argc > 1 ? atol(argv[1]) : 5;
	long count = argc > 2 ? atol(argv[2]) : 100;
	volatile long sum = 0;
#define ONE(number) sum += f##number(number);
#include "emulated_names.h"
	while (parts--) {
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (long i = 0; i < count; i++)
			sum += f0(i);
		clock_gettime(CLOCK_MONOTONIC, &end);
		double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 +
			    (double)(end.tv_nsec - start.tv_nsec);
		printf("%.3f\n", ns / 1e3 / (double)count);
	}
	return 0;
}
