// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// C threads cancelled under hooked calls, deferred and asynchronous, with cleanup
// handlers that call hooked functions.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

COUNTED(f1);
COUNTED(fcallp);

static volatile int started;
static volatile long begun, done;
static long cleaned;

static void clean(void *argument)
{
	(void)argument;
	CALL(f1, 1);
	cleaned++;
}

static void *waits(void *argument)
{
	pthread_cleanup_push(clean, 0);
	started = 1;
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return argument;
}

static void *deferred(void *argument)
{
	return CALL(fcallp, waits, argument);
}

static void *hot(void *argument)
{
	pthread_cleanup_push(clean, 0);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	started = 1;
	for (;;) {
		begun = begun + 1;
		f0(1);
		done = done + 1;
	}
	pthread_cleanup_pop(0);
	return argument;
}

static void cancel(void *(*body)(void *), useconds_t after)
{
	pthread_t thread;
	void *result;
	started = 0;
	CHECK(pthread_create(&thread, 0, body, 0) == 0);
	while (!started)
		usleep(20);
	usleep(after);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	CHECK(result == PTHREAD_CANCELED);
}

int main(void)
{
	for (int i = 0; i < 20; i++)
		cancel(deferred, 0);
	long first = cleaned;
	for (int i = 0; i < 60; i++)
		cancel(hot, (useconds_t)(i * 7 % 150));
	truth_range("f0", done, begun);
	REPORT(f1);
	REPORT(fcallp);
	printf("cancelled %ld %ld\n", first, cleaned);
	return 0;
}
