// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; orphans=yes; follow=yes; runs=f0|f8|fstr|fcall; soak=f0,400|f8,400|fstr,400|fcall,400
// A timer's handler forks, wherever it struck, and the child goes on from there:
// the call that it finds itself in is its parent's as well as its own.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(f1);
COUNTED(f8);
COUNTED(fstr);
COUNTED(fcall);

static volatile sig_atomic_t children, is_child;
static int limit = 30; // of children

static int inner(int x)
{
	return CALL(f1, x);
}

static void aim(void)
{
	static unsigned state = 1;
	state = state * 1664525u + 1013904223u;
	struct itimerval when = {{0, 0}, {0, 30 + (state >> 16) % 200}};
	setitimer(ITIMER_REAL, &when, 0);
}

static void on_alarm(int number)
{
	int kept = errno, status = 0;
	(void)number;
	long pid = syscall(SYS_fork);
	if (!pid) {
		is_child = 1;
	} else {
		CHECK(pid > 0);
		while (waitpid((pid_t)pid, &status, 0) < 0)
			CHECK(errno == EINTR);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
		children = children + 1;
		if (children < limit)
			aim();
	}
	errno = kept;
}

__attribute__((noreturn)) static void child(const char *what)
{
	truth_role = "vfork"; // it may still be its parent's call, half recorded
	truth_range(what, 0, 1);
	if (!strcmp(what, "fcall"))
		truth_range("f1", 0, 1);
	for (int i = 0; i < 300; i++)
		CHECK(f0(i) == i + 1);
	truth_role = "child";
	truth_calls("f0", 300);
	_exit(7);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "f0";
	int kind = what[1] == '0' ? 0 : what[1] == '8' ? 1 : what[1] == 's' ? 2 : 3;
	if (argc > 2)
		limit = atoi(argv[2]);
	signal(SIGALRM, on_alarm);
	aim();
	while (children < limit && !is_child)
		switch (kind) {
		case 0:
			CHECK(CALL(f0, 1) == 2);
			break;
		case 1:
			CHECK(CALL(f8, 1, 1, 1, 1, 1, 1, 1, 1) == 36);
			break;
		case 2:
			CHECK(!strcmp(CALL(fstr, "some words to keep"), "some words to keep"));
			break;
		default:
			CHECK(CALL(fcall, inner, 1) == 4);
		}
	if (is_child)
		child(what);
	REPORT(f0);
	REPORT(f1);
	REPORT(f8);
	REPORT(fstr);
	REPORT(fcall);
	printf("children %d\n", (int)children);
	return 0;
}
