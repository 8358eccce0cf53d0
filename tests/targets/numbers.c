// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; follow=yes; runs=threads,3,10,0|forks,3,10
// Threads, or forked children, one after another, each of which calls f1 and then f2.
// In a process namespace its own ids are small numbers: the first thread's is 1.
//
//	threads COUNT CALLS MICROSECONDS   threads on one stack, with pauses in between
//	forks COUNT CALLS                  children
//
// With a further argument it says that it is ready and waits for a line; and for another one
// when it has done all.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f1);
COUNTED(f2);

static int calls;

static void *work(void *argument)
{
	for (int i = 0; i < calls; i++)
		CALL(f1, i);
	CALL(f2, 0);
	return argument;
}

static void *idle(void *argument)
{
	return argument;
}

static void in_thread(void *(*function)(void *), int pause)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, 0, function, 0) == 0);
	CHECK(pthread_join(thread, 0) == 0);
	usleep(pause);
}

static void in_child(void)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		RESET(f1);
		RESET(f2);
		truth_role = "child";
		work(0);
		REPORT(f1);
		REPORT(f2);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void say_and_wait(const char *text)
{
	char line[16];

	puts(text);
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
}

int main(int argc, char **argv)
{
	int threads = !strcmp(argv[1], "threads"), count = atoi(argv[2]), needed = threads ? 5 : 4;
	bool waits = argc > needed;

	calls = atoi(argv[3]);
	if (threads)
		in_thread(idle, 0); // from now on the C library knows that there are several
	if (waits)
		say_and_wait("ready");
	for (int i = 0; i < count; i++)
		if (threads)
			in_thread(work, atoi(argv[4]));
		else
			in_child();
	work(0);
	REPORT(f1);
	REPORT(f2);
	if (waits)
		say_and_wait("done");
	return 0;
}
