// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// A thread ends; long after, when what it held of the ring has been given to
// others, a new one gets its stack and its thread pointer.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(f1);

static void *run(void *argument)
{
	CALL(f1, 1);
	*(pthread_t *)argument = pthread_self();
	return 0;
}

int main(void)
{
	pthread_t thread, first, second;
	CALL(f0, 0);
	for (int round = 0; round < 2; round++) {
		CHECK(pthread_create(&thread, 0, run, &first) == 0);
		pthread_join(thread, 0);
		usleep(900000); // soscope notices that the thread has ended
		for (int i = 0; i < 400; i++) // more than one chunk, less than two
			CALL(f0, i);
		CHECK(pthread_create(&thread, 0, run, &second) == 0);
		pthread_join(thread, 0);
		CHECK(first == second);
		usleep(50000); // and empties the ring
		for (int i = 0; i < 1000; i++)
			CALL(f0, i);
	}
	REPORT(f0);
	REPORT(f1);
	puts("reused");
	return 0;
}
