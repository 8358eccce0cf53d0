// SPDX-License-Identifier: Apache-2.0
// What the machine's own clock costs: nanoseconds for one rdtsc, and for a call through a
// PLT with nothing in it. A record contains one clock, an entry with its exit two.
#include "leaf.h"

#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { TIMES = 100000, ROUNDS = 31 };

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

int main(void)
{
	double best_clock = 1e9, best_call = 1e9;
	volatile long sink;

	for (int round = 0; round < ROUNDS; round++) {
		unsigned long sum = 0;
		long value = 0;
		double start = now(), middle, end;

		for (int i = 0; i < TIMES; i++)
			sum += __rdtsc();
		middle = now();
		for (int i = 0; i < TIMES; i++)
			value = bench_leaf(value);
		end = now();
		sink = sum + value;
		if (middle - start < best_clock)
			best_clock = middle - start;
		if (end - middle < best_call)
			best_call = end - middle;
	}
	(void)sink;
	printf("%.3f %.3f\n", best_clock / TIMES, best_call / TIMES);
	return 0;
}
