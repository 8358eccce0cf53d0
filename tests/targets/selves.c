// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline
// selves THREADS ROUNDS [signals]: calls inside of calls, in threads, in a forked child and, with
// `signals`, in a handler that interrupts all of them: fcall calls back, the callback calls f0, the
// handler f1.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int rounds;
static volatile int sink;

static void interrupt(int signal)
{
	sink += f1(signal);
}

static int inside(int depth)
{
	return depth ? fcall(inside, depth - 1) : f0(1) + f0(2);
}

static void *work(void *unused)
{
	for (int i = 0; i < rounds; i++)
		fcall(inside, i % 4);
	return unused;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]);
	pthread_t threads[128];

	rounds = atoi(argv[2]);
	if (argc > 3) {
		struct itimerval often = {{0, 200}, {0, 200}};
		struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};

		CHECK(!sigaction(SIGALRM, &action, NULL));
		CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	}
	for (int i = 0; i < count; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, NULL));
	work(NULL);
	for (int i = 0; i < count; i++)
		CHECK(!pthread_join(threads[i], NULL));
	if (argc > 3) {
		struct itimerval never = {{0, 0}, {0, 0}};

		CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	}
	pid_t child = fork();
	if (!child) {
		work(NULL);
		_exit(0);
	}
	CHECK(waitpid(child, NULL, 0) == child);
	printf("selves %d\n", count);
	return 0;
}
