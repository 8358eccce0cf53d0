// SPDX-License-Identifier: Apache-2.0
// A timer's handler forks, wherever it struck: in the middle of a long buffer's capture, too.
// The child makes a call of its own a while later, and goes on there with a ring that is its
// parent's, who is far ahead.
#define _GNU_SOURCE
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { FORKS = 400 };

static char big[6000];
static int null;
static volatile sig_atomic_t forks, is_child;

static void on_alarm(int number)
{
	int error = errno;

	(void)number;
	if (fork() == 0) {
		const struct itimerval off = {0};

		is_child = 1;
		setitimer(ITIMER_REAL, &off, NULL);
		usleep(300);
		CHECK(write(null, "child", 5) == 5);
	} else {
		forks++;
	}
	errno = error;
}

int main(void)
{
	const struct itimerval often = {{0, 900}, {0, 900}};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	memset(big, 'x', sizeof big);
	CHECK((null = open("/dev/null", O_WRONLY)) >= 0);
	CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	while (forks < FORKS) {
		CHECK(write(null, big, sizeof big) == sizeof big);
		if (is_child)
			_exit(0);
	}
	return 0;
}
