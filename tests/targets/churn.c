// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; runs=1500; soak=5000
// churn N: threads that come and go on reused stacks, so that another thread has
// the thread pointer, the stack and the number of one that ended.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

COUNTED(f0);
COUNTED(fcall);

static int inner(int x)
{
	return CALL(f0, x);
}

static void *run(void *argument)
{
	long x = 0;
	for (int i = 0; i < 20; i++)
		x += CALL(fcall, inner, i);
	if ((long)argument & 1) // half of them leave calls open behind them
		pthread_exit((void *)x);
	return (void *)x;
}

int main(int argc, char **argv)
{
	long sum = 0;
	int count = argc > 1 ? atoi(argv[1]) : 100;
	pthread_t threads[4];
	for (long i = 0; i < count; i++) {
		void *back;
		if (i >= 4) {
			pthread_join(threads[i % 4], &back);
			sum += (long)back;
		}
		CHECK(pthread_create(&threads[i % 4], 0, run, (void *)i) == 0);
	}
	for (int i = 0; i < 4; i++) {
		void *back;
		pthread_join(threads[i], &back);
		sum += (long)back;
	}
	REPORT(f0);
	REPORT(fcall);
	printf("churn %ld\n", sum);
	return 0;
}
