// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; follow=yes; status=5; cflags=-fno-builtin -fno-ipa-ra
// A little of everything that a trace shows: strings, failures, doubles, void, calls
// inside calls, signals, children of both kinds, a call that never returns.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f1);

static int compare(const void *a, const void *b)
{
	CALL(f1, 1);
	return *(const int *)a - *(const int *)b;
}

static void on_signal(int number)
{
	(void)number;
	CALL(f1, 2);
}

static void wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
}

int main(void)
{
	int numbers[] = {3, 1, 2};
	char text[] = "a\tb\xff\"\n", *copy = strdup(text);
	pid_t child;

	CHECK(copy && !strcmp(copy, text));
	free(copy);
	free(NULL);
	puts("hello");
	printf("%s %d %.1f %c\n", "output", 1, 2.5, 'z');
	fflush(stdout);
	CHECK(open("/nonexistent/file", O_RDONLY | O_CLOEXEC) == -1);
	CHECK(close(-1) == -1);
	CHECK(!getenv("SOSCOPE_NO_SUCH_VARIABLE"));
	qsort(numbers, 3, sizeof(*numbers), compare);
	CHECK(numbers[0] == 1);
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	child = fork();
	if (!child) {
		getppid();
		_exit(3);
	}
	wait_for(child);
	child = vfork();
	if (!child) {
		getppid();
		_exit(3);
	}
	wait_for(child);
	REPORT(f1);
	exit(5);
}
