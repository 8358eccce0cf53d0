// SPDX-License-Identifier: Apache-2.0
// target: cflags=-fno-builtin
// Coroutines that a timer switches: its handler goes on in the next one, so that all others are
// kept as they were interrupted, mostly in the middle of a call. "s" stops the timer, "g" has it go on.
// After "w" each coroutine writes over what handlers that have returned have left on its stack. "e" ends
// the program when each has made calls again. All have counted what they should.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { COUNT = 8, STACK = 65536, LENGTH = 5, LEFT = 16384 };

static ucontext_t contexts[COUNT];
static int current;
static volatile int wipes;
static volatile unsigned long rounds[COUNT], sums[COUNT];
static char texts[COUNT][16];
static sigset_t of_timer;

static void next(int number)
{
	int before = current;

	(void)number;
	current = (current + 1) % COUNT;
	swapcontext(&contexts[before], &contexts[current]);
}

static void switch_each(int microseconds)
{
	struct itimerval interval = {{0, microseconds}, {0, microseconds}};

	// one that is on its way comes when the timer goes on
	if (!microseconds)
		sigprocmask(SIG_BLOCK, &of_timer, NULL);
	setitimer(ITIMER_REAL, &interval, NULL);
	if (microseconds)
		sigprocmask(SIG_UNBLOCK, &of_timer, NULL);
}

static void __attribute__((noinline)) wipe(void)
{
	volatile char left[LEFT];

	for (int i = 0; i < LEFT; i++)
		left[i] = 0;
}

static void step(int own)
{
	if (wipes)
		wipe();
	sums[own] += strlen(texts[own]);
	rounds[own]++;
}

static void work(void)
{
	int own = current;

	sigprocmask(SIG_UNBLOCK, &of_timer, NULL);
	for (;;)
		step(own);
}

static int all_went_on(const unsigned long *before)
{
	for (int i = 0; i < COUNT; i++)
		if (rounds[i] <= before[i])
			return 0;
	return 1;
}

static void say(const char *what)
{
	(void)!write(1, what, strlen(what));
}

int main(void)
{
	struct sigaction action = {.sa_handler = next, .sa_flags = SA_RESTART};
	unsigned long before[COUNT], wrong = 0;
	char order = 0;

	sigemptyset(&of_timer);
	sigaddset(&of_timer, SIGALRM);
	for (int i = 0; i < COUNT; i++) {
		memset(texts[i], 'a', LENGTH);
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(STACK);
		contexts[i].uc_stack.ss_size = STACK;
		// swapcontext sets the signal mask before it leaves a stack: a signal that came there
		// would save this stack as the next coroutine's
		sigaddset(&contexts[i].uc_sigmask, SIGALRM);
		if (i)
			makecontext(&contexts[i], work, 0);
	}
	sigaction(SIGALRM, &action, NULL);
	fcntl(0, F_SETFL, O_NONBLOCK);
	say("ready\n");
	switch_each(500);
	while (order != 'e') {
		step(0);
		if (read(0, &order, 1) != 1)
			continue;
		if (order == 's') {
			switch_each(0);
			say("stopped\n");
		} else if (order == 'g') {
			switch_each(500);
		} else if (order == 'w') {
			wipes = 1;
		}
	}
	for (int i = 0; i < COUNT; i++)
		before[i] = rounds[i];
	switch_each(500);
	while (!all_went_on(before))
		step(0);
	switch_each(0);
	for (int i = 0; i < COUNT; i++)
		wrong += sums[i] - rounds[i] * LENGTH > LENGTH;
	printf("wrong %lu\n", wrong);
	return wrong ? 2 : 7;
}
