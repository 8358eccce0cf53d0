// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; follow=yes; runs=waiting,1,15:SIGTERM|waiting,20,9:SIGKILL|busy,4,6:SIGABRT|busy,4,15:SIGTERM|starting,30,15:SIGTERM|starting,30,9:SIGKILL|starting,30,11:SIGSEGV|alone,5,15:SIGTERM|one,8,10:SIGUSR1|child,20,15|child,20,9
// killed HOW THREADS SIGNAL: a signal ends a program that has threads.
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(f0);

static const char *how;
static int threads, number;
static volatile int started;
static pthread_t first;

static int is(const char *name)
{
	return !strcmp(how, name);
}

static void *run(void *argument)
{
	__atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
	while (is("busy"))
		;
	if (is("starting"))
		return argument;
	for (;;)
		pause();
}

static void *start_more(void *argument)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (;;) {
		pthread_t one;
		if (pthread_create(&one, &attributes, run, argument))
			usleep(100);
	}
}

static void *kill_alone(void *argument)
{
	CHECK(pthread_join(first, 0) == 0);
	kill(getpid(), number);
	return argument;
}

static void be_killed(void)
{
	pthread_t one = pthread_self();
	for (int i = 0; i < 10; i++)
		CALL(f0, i);
	if (is("starting")) {
		CHECK(pthread_create(&one, 0, start_more, 0) == 0);
	} else {
		for (int i = 0; i < threads; i++)
			CHECK(pthread_create(&one, 0, run, 0) == 0);
	}
	while (started < threads)
		usleep(100);
	REPORT(f0);
	if (is("alone")) {
		first = pthread_self();
		CHECK(pthread_create(&one, 0, kill_alone, 0) == 0);
		pthread_exit(0);
	}
	if (is("one"))
		pthread_kill(one, number);
	else
		kill(getpid(), number);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	how = argv[1];
	threads = atoi(argv[2]);
	number = atoi(argv[3]);
	puts("begin");
	fflush(stdout);
	if (!is("child"))
		be_killed();
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			truth_role = "child";
			RESET(f0);
			be_killed();
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
		CALL(f0, i);
	}
	REPORT(f0);
	puts("done");
	return 0;
}
