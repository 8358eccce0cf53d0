// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// flown N HOW: calls getenv with 0, 1, 2… N - 1, and then
//
//	flown N kill    kills itself by SIGKILL
//	flown N end     ends
//	flown N symbol  calls srand, getenv with "after", and srand again
//	flown N forever goes on in two threads, "1:0", "1:1"… and "2:0"…, until its input ends
// With "vfork" behind that there is a child behind each of the N calls; with "fork" each is a child's.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int over;
static volatile long made[3];

static void call(const char *format, long thread, long number)
{
	char name[32];
	snprintf(name, sizeof name, format, thread, number);
	if (getenv(name))
		abort();
}

static void *threaded(void *which)
{
	for (long number = 0; !over; made[(long)which] = ++number)
		call("%ld:%ld", (long)which, number);
	return NULL;
}

static void go_on(void)
{
	pthread_t threads[2];
	char byte;
	for (long i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, threaded, (void *)(i + 1)))
			abort();
	while (made[1] < 1000 || made[2] < 1000)
		(void)usleep(1000);
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	over = 1;
	for (int i = 0; i < 2; i++)
		(void)pthread_join(threads[i], NULL);
}

static void call_in_child(long number)
{
	pid_t child = fork();
	if (!child) {
		call("%.0ld%ld", 0, number);
		_exit(0);
	}
	if (waitpid(child, NULL, 0) != child)
		abort();
}

static void call_and_vfork(long number)
{
	pid_t child;
	call("%.0ld%ld", 0, number);
	child = vfork();
	if (!child)
		_exit(0);
	if (waitpid(child, NULL, 0) != child)
		abort();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	for (long i = 0; i < atol(argv[1]); i++)
		if (argc > 3 && !strcmp(argv[3], "fork"))
			call_in_child(i);
		else if (argc > 3)
			call_and_vfork(i);
		else
			call("%.0ld%ld", 0, i);
	if (!strcmp(argv[2], "kill"))
		(void)kill(getpid(), SIGKILL);
	if (!strcmp(argv[2], "symbol")) {
		srand(1);
		(void)getenv("after");
		srand(2);
	}
	if (!strcmp(argv[2], "forever"))
		go_on();
	puts("end");
	return 0;
}
