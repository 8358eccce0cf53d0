// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// The main thread ends by pthread_exit; the process goes on in the others and ends
// with the last one.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

COUNTED(f0);

static pthread_t first;

static void *run(void *argument)
{
	(void)argument;
	pthread_join(first, 0);
	int x = 0;
	for (int i = 0; i < 1000; i++)
		x = CALL(f0, x);
	usleep(20000);
	x = CALL(f0, x);
	REPORT(f0);
	printf("main left %d\n", x);
	return 0;
}

int main(void)
{
	pthread_t thread;
	first = pthread_self();
	pthread_create(&thread, 0, run, 0);
	CALL(f0, 0);
	pthread_exit(0);
}
