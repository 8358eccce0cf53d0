// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; orphans=yes; runs=one|two|jump
// Timers whose handlers call hooked functions, while the main program does little
// else: 50 microseconds alone; two that nest into each other; one whose handler
// leaves by siglongjmp from wherever it struck. The first two begin anew when their
// handler ends: where a signal takes longer than the interval, as with a tracer on a busy
// machine, the main program goes on all the same.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CALLS = 3000, SIGNALS = 300, JUMPS = 300 };

COUNTED(f0);
COUNTED(f1);
COUNTED(f2);
COUNTED(fcall);

static timer_t timers[64]; // by signal
static long intervals[64]; // nanoseconds
static volatile sig_atomic_t armed;
static volatile long signals;
static sigjmp_buf home;

static int inner(int x)
{
	return CALL(f1, x);
}

static void arm(int number)
{
	struct itimerspec once = {{0, 0}, {0, intervals[number]}};
	CHECK(timer_settime(timers[number], 0, &once, 0) == 0);
}

static void on_signal(int number)
{
	__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
	CALL(f1, 1);
	CALL(fcall, inner, 2);
	CALL(f2, 3);
	arm(number);
}

static void on_jump(int number)
{
	arm(number);
	if (!armed)
		return;
	armed = 0;
	CALL(f1, 1);
	siglongjmp(home, 1);
}

static void start(int number, void (*handler)(int), long interval)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	action.sa_flags = SA_RESTART;
	sigaction(number, &action, 0);
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = number;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timers[number]) == 0);
	intervals[number] = interval;
	arm(number);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "one";
	if (!strcmp(how, "jump")) {
		// A jump may strike between the counting and the call, or between the
		// call and its end.
		volatile long jumps = 0, begun = 0, done = 0;
		start(SIGALRM, on_jump, 50000);
		while (jumps < JUMPS) {
			if (sigsetjmp(home, 1)) {
				jumps++;
				continue;
			}
			armed = 1;
			for (;;) {
				begun = begun + 1;
				f0(1);
				done = done + 1;
			}
		}
		armed = 0;
		signal(SIGALRM, SIG_IGN);
		truth_range("f0", done, begun);
		REPORT(f1);
		printf("jumps %ld\n", jumps);
		return 0;
	}
	start(SIGALRM, on_signal, 50000);
	if (!strcmp(how, "two"))
		start(SIGUSR1, on_signal, 100000);
	int x = 0;
	for (long i = 0; i < CALLS || signals < SIGNALS; i++) {
		x = CALL(f0, x);
		x -= CALL(fcall, inner, 0) - 3;
	}
	signal(SIGALRM, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	REPORT(f0);
	REPORT(f1);
	REPORT(f2);
	REPORT(fcall);
	CHECK(x > 0);
	printf("signals %s\n", how);
	return 0;
}
