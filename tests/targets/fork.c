// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; orphans=yes; ldflags=-pthread; follow=yes
// Children by every call that copies the process: fork, a raw SYS_fork, a raw
// SYS_clone, from the main thread, under a hooked call, in children and threads.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(fcall);

static void times(int n)
{
	for (int i = 0; i < n; i++)
		CALL(f0, i);
}

__attribute__((noreturn)) static void child(int calls, int depth)
{
	truth_role = "child";
	RESET(f0);
	RESET(fcall);
	times(calls);
	if (depth > 0 && depth < 9) {
		pid_t pid = fork();
		if (!pid)
			child(calls / 2, depth - 1);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
		times(1);
	}
	REPORT(f0);
	REPORT(fcall);
	_exit(7);
}

static int expect(pid_t pid)
{
	int status;
	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	return 1;
}

static int forks(int x)
{
	pid_t pid = fork(); // both return through the hooked call
	if (!pid) {
		truth_role = "child";
		RESET(f0);
		RESET(fcall);
		return -1;
	}
	return expect(pid) + x;
}

static void *in_thread(void *argument)
{
	pid_t pid = fork();
	if (!pid)
		child(30, 1);
	*(int *)argument += expect(pid);
	times(5);
	return 0;
}

int main(void)
{
	int ended = 0;
	times(2000);
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		if (!pid)
			child(100 + i, i % 3);
		ended += expect(pid);
	}
	long raw = syscall(SYS_fork);
	if (!raw)
		child(200, 0);
	ended += expect((pid_t)raw);
	raw = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!raw)
		child(300, 1);
	ended += expect((pid_t)raw);

	for (int i = 0; i < 5; i++) {
		int back = CALL(fcall, forks, i);
		if (back == 0) { // fcall adds one to -1: this is the child
			times(3);
			REPORT(f0);
			REPORT(fcall);
			_exit(7);
		}
		CHECK(back == i + 2);
	}

	pthread_t thread;
	pthread_create(&thread, 0, in_thread, &ended);
	pthread_join(thread, 0);
	times(11);
	REPORT(f0);
	REPORT(fcall);
	printf("fork %d\n", ended);
	return 0;
}
