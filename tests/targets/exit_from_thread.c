// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; status=5
// The process ends by exit() in a thread, under a hooked call, while the main
// thread waits in another; atexit handlers call hooked functions.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(fcallp);

static void at_exit(void)
{
	CALL(f0, 1);
	REPORT(f0);
	REPORT(fcallp);
	puts("exit from a thread");
}

static void *leave(void *argument)
{
	(void)argument;
	CALL(f0, 2);
	exit(5);
}

static void *run(void *argument)
{
	return CALL(fcallp, leave, argument);
}

static void *wait_for_ever(void *argument)
{
	pthread_t thread;
	pthread_create(&thread, 0, run, argument);
	for (;;)
		pause();
	return 0;
}

int main(void)
{
	atexit(at_exit);
	CALL(fcallp, wait_for_ever, 0);
	return 1;
}
