// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; select=f0,f1,f2,fcallp,pthread_exit@MAIN
// What threads still call while they end: key destructors (several rounds of
// them), cleanup handlers, and after pthread_exit under hooked calls.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>

COUNTED(f0);
COUNTED(f1);
COUNTED(f2);
COUNTED(fcallp);
COUNTED(pthread_exit);

static pthread_key_t key;
static __thread int rounds;
static long destroyed, cleaned;

static void destroy(void *value)
{
	CALL(f0, 1);
	__atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
	if (++rounds < 3)
		pthread_setspecific(key, value);
}

static void clean(void *argument)
{
	(void)argument;
	CALL(f1, 1);
	__atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *leave(void *argument)
{
	pthread_cleanup_push(clean, 0);
	CALL(f2, 1);
	COUNT(pthread_exit);
	pthread_exit(argument);
	pthread_cleanup_pop(0);
	return 0;
}

static void *run(void *argument)
{
	pthread_setspecific(key, &key);
	return CALL(fcallp, leave, argument);
}

int main(void)
{
	pthread_key_create(&key, destroy);
	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		void *back;
		CHECK(pthread_create(&thread, 0, run, &key) == 0);
		pthread_join(thread, &back);
		CHECK(back == &key);
	}
	REPORT(f0);
	REPORT(f1);
	REPORT(f2);
	REPORT(fcallp);
	REPORT(pthread_exit);
	printf("ends %ld %ld\n", destroyed, cleaned);
	return 0;
}
