// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// told [HOW]: says each signal that people send, and how often it got it when it gets SIGRTMIN.
//
//	told            waits
//	told last N I   makes N calls, sends signal I of these to its group, ends with 7
//	told parent     a child of it tells its group, and it its parent; then it waits
//	told daemon     leaves a child in a session of its own that lives; ends with 3
//	told forks N    makes N calls, says so; waits; forks, says so; waits again
#include "leaf.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int numbers[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT, SIGTSTP};
static volatile sig_atomic_t got[65], leave;

static void count(int number)
{
	char text[] = "got 00\n";
	got[number]++;
	text[4] += number / 10;
	text[5] += number % 10;
	(void)!write(1, text, sizeof text - 1);
}

static void end(int number)
{
	leave = number;
}

static void wait_for_the_end(void)
{
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	sigprocmask(SIG_BLOCK, &all, 0);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (!leave)
		sigsuspend(&none);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		printf("%d:%d ", numbers[i], (int)got[numbers[i]]);
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "wait";
	int x = 0;
	if (!strcmp(how, "last")) {
		for (int i = 0; i < 7; i++)
			signal(numbers[i], SIG_IGN);
		for (int i = 0; i < atoi(argv[2]); i++)
			x = f0(x);
		for (int i = 0; i < 3; i++)
			kill(0, numbers[atoi(argv[3])]);
		_exit(7);
	}
	struct sigaction action = {.sa_handler = count};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaction(numbers[i], &action, 0);
	action.sa_handler = end;
	sigaction(SIGRTMIN, &action, 0);
	if (!strcmp(how, "parent")) {
		int status;
		pid_t child = fork();
		if (!child) {
			for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
				signal(numbers[i], SIG_IGN);
			kill(0, SIGUSR1);
			kill(0, SIGTERM);
			_exit(0);
		}
		while (waitpid(child, &status, 0) != child)
			;
		kill(getppid(), SIGUSR2);
	}
	if (!strcmp(how, "daemon")) {
		if (fork())
			_exit(3);
		setsid();
		alarm(60);
	}
	int calls = !strcmp(how, "forks") ? atoi(argv[2]) : 10;
	for (int i = 0; i < calls; i++)
		x = f0(x);
	if (!strcmp(how, "forks")) {
		wait_for_the_end();
		leave = 0;
		for (int i = 0; i < 5; i++) {
			pid_t child = fork();
			if (!child)
				_exit(0);
			while (waitpid(child, 0, 0) != child)
				;
		}
		printf("forked\n");
	}
	wait_for_the_end();
	return 0;
}
