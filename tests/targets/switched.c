// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// switched [HOW]: calls getenv with names that say whether somebody who switches on at srand and
// off at rand is to see them: "in..." and "out...".
//
//	switched        as it comes: twice on and off, a thread, a call under way, a forked child
//	switched wait   a call for each line of its input, and a line when it has made it
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void call(const char *name)
{
	if (getenv(name))
		abort();
}

static int compare(const void *a, const void *b)
{
	call("in-nested");
	(void)rand();
	call("out-nested");
	return *(const int *)a - *(const int *)b;
}

static void *threaded(void *name)
{
	call(name);
	return NULL;
}

static void in_thread(char *name)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, threaded, name))
		abort();
	(void)pthread_join(thread, NULL);
}

static void wait_for_lines(void)
{
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		call(line);
		puts("done");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int pair[2] = {2, 1};
	(void)argv;
	if (argc > 1) {
		wait_for_lines();
		return 0;
	}
	for (int round = 0; round < 2; round++) {
		call("out-before");
		srand(1);
		call("in");
		in_thread("in-thread");
		(void)rand();
		call("out-after");
		in_thread("out-thread");
	}
	srand(1);
	qsort(pair, 2, sizeof pair[0], compare); // begins inside, ends outside
	call("out-after-qsort");
	pid_t child = fork();
	if (!child) {
		call("out-child");
		srand(1);
		call("in-child");
		_exit(0);
	}
	(void)waitpid(child, NULL, 0);
	call("out-parent"); // what the child has switched on is the child's
	puts("end");
	return 0;
}
