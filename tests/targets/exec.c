// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; orphans=yes; ldflags=-pthread; follow=yes; status=4; runs=3|thread|fork
// exec N: runs itself anew, N times in the same process, from a thread, or in a
// child; each image counts its own calls.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f0);

static void again(const char *what)
{
	fflush(stdout);
	REPORT(f0);
	execl("/proc/self/exe", "exec", what, "again", (char *)0);
	CHECK(!"exec failed");
}

static void *in_thread(void *argument)
{
	CALL(f0, 1);
	again("0");
	return argument;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "1";
	int first = argc < 3;
	if (!first)
		truth_role = "exec";
	for (int i = 0; i < 77; i++)
		CALL(f0, i);
	printf("image %s\n", what);
	if (!strcmp(what, "thread")) {
		pthread_t thread;
		pthread_create(&thread, 0, in_thread, 0);
		pthread_join(thread, 0);
	} else if (!strcmp(what, "fork")) {
		fflush(stdout);
		pid_t pid = fork();
		if (!pid) {
			truth_role = "child";
			RESET(f0);
			CALL(f0, 1);
			again("0");
		}
		int status;
		waitpid(pid, &status, 0);
		CHECK(WEXITSTATUS(status) == 4);
	} else if (atoi(what) > 0) {
		char less[12];
		snprintf(less, sizeof less, "%d", atoi(what) - 1);
		again(less);
	}
	REPORT(f0);
	return 4;
}
