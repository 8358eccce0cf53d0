// SPDX-License-Identifier: Apache-2.0
// target: libs=names,binds; cflags=-O0; ldflags=-pthread -Wl,-z,lazy; select=fr*
// Two threads bind two thousand lazy slots at the same moment, some of them the
// same ones: every call of both is seen, the first ones too.
#include "thousand_names.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>

int binds_up(int x);
int binds_down(int x);

static pthread_barrier_t barrier;

static void *up(void *argument)
{
	pthread_barrier_wait(&barrier);
	*(int *)argument = binds_up(0) + binds_up(0) + binds_up(0);
	return 0;
}

static void *down(void *argument)
{
	pthread_barrier_wait(&barrier);
	*(int *)argument = binds_down(0) + binds_down(0) + binds_down(0);
	return 0;
}

int main(void)
{
	pthread_t threads[2];
	int sums[2] = {0};
	pthread_barrier_init(&barrier, 0, 2);
	pthread_create(&threads[0], 0, up, &sums[0]);
	pthread_create(&threads[1], 0, down, &sums[1]);
	pthread_join(threads[0], 0);
	pthread_join(threads[1], 0);
	truth_hold();
#define SAY(n) truth_calls("fr" #n, 6);
	NAMES(SAY)
	printf("race %d %d\n", sums[0], sums[1]);
	return 0;
}
