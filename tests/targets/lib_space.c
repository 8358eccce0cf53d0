// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// What a library in a namespace of its own does with the C library that came with it.
#define _GNU_SOURCE
#include "space.h"
#include "leaf.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(f1);
COUNTED(ferr);
COUNTED(aligned_alloc);
COUNTED(pthread_create);

static void *thread(void *argument)
{
	for (int i = 0; i < *(int *)argument; i++)
		CALL(f1, i);
	errno = 0;
	CHECK(CALL(ferr, ENOTEMPTY) == -1 && errno == ENOTEMPTY);
	return argument;
}

int space_threads(int times)
{
	pthread_t threads[4];
	void *back;
	for (int i = 0; i < 4; i++) {
		COUNT(pthread_create);
		CHECK(pthread_create(&threads[i], 0, thread, &times) == 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], &back) == 0 && back == &times);
	return times;
}

int space_calls(int times)
{
	int x = 0;
	for (int i = 0; i < times; i++)
		x = CALL(f0, x);
	errno = 0;
	CHECK(CALL(ferr, ENOTDIR) == -1 && errno == ENOTDIR);
	return x;
}

int space_error(int times)
{
	for (int i = 0; i < times; i++) {
		errno = 0;
		CHECK(open("/no/such/file", O_RDONLY) == -1 && errno == ENOENT);
	}
	return times;
}

int space_memory(int times)
{
	for (int i = 0; i < times; i++) {
		char *block = CALL(aligned_alloc, 64, 64);
		CHECK(block);
		*block = 1;
		free(block);
	}
	return times;
}

int space_fork(int times)
{
	int status;
	space_report(); // or the child has the counts again
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		truth_role = "child";
		space_calls(times);
		space_report();
		_exit(7);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	return space_calls(times);
}

void space_report(void)
{
	REPORT(f0);
	REPORT(f1);
	REPORT(ferr);
	REPORT(aligned_alloc);
	REPORT(pthread_create);
	RESET(f0);
	RESET(f1);
	RESET(ferr);
	RESET(aligned_alloc);
	RESET(pthread_create);
}
