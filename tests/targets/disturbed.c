// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// disturbed [ROUNDS]: threads run for a while and wait for a moment, again and again, in calls that
// a stop may end early; another one gets signals that must all arrive. Each call that ends as it
// must not is counted.
#define _GNU_SOURCE
#include "truth.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

enum { SIGNALS = 400 };

static int rounds = 400, semaphores, epoll, pipes[2];
static atomic_long wrong, arrived;
static atomic_int over;

static void burn(long ns)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	long end = time.tv_sec * 1000000000 + time.tv_nsec + ns;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	while (time.tv_sec * 1000000000 + time.tv_nsec < end);
}

static void expect(int holds, const char *what)
{
	if (!holds && !wrong++)
		perror(what);
}

static void *wait_in_epoll(void *argument)
{
	struct epoll_event event;
	for (int i = 0; i < rounds; i++) {
		burn(1000000);
		expect(epoll_wait(epoll, &event, 1, 1) == 0, "epoll_wait");
	}
	return argument;
}

static void *wait_for_semaphore(void *argument)
{
	struct sembuf take = {0, -1, 0};
	for (int i = 0; i < rounds; i++) {
		burn(1000000);
		struct timespec pause = {0, 500000};
		expect(semtimedop(semaphores, &take, 1, &pause) < 0 && errno == EAGAIN,
		       "semtimedop");
	}
	return argument;
}

static void *sleep_and_poll(void *argument)
{
	struct pollfd file = {epoll, POLLIN, 0};
	sigset_t none;
	sigemptyset(&none);
	sigaddset(&none, SIGUSR2);
	for (int i = 0; i < rounds; i++) {
		struct timespec pause = {0, 300000};
		burn(500000);
		expect(nanosleep(&pause, 0) == 0, "nanosleep");
		burn(500000);
		expect(poll(&file, 1, 1) == 0, "poll");
		expect(sigtimedwait(&none, 0, &pause) < 0 && errno == EAGAIN, "sigtimedwait");
	}
	return argument;
}

static void *write_much(void *argument)
{
	static char bytes[300000];
	for (int i = 0; i < 2 * rounds; i++)
		expect(write(pipes[1], bytes, sizeof(bytes)) == sizeof(bytes), "write");
	close(pipes[1]);
	return argument;
}

static void *read_slowly(void *argument)
{
	static char bytes[4096];
	while (read(pipes[0], bytes, sizeof(bytes)) > 0)
		for (volatile int i = 0; i < 1000; i++)
			;
	return argument;
}

static void on_signal(int number)
{
	arrived += number == SIGRTMIN;
}

static void *get_signals(void *argument)
{
	sigset_t own;
	sigemptyset(&own);
	sigaddset(&own, SIGRTMIN);
	pthread_sigmask(SIG_UNBLOCK, &own, 0);
	while (!over)
		burn(100000);
	return argument;
}

int main(int argc, char **argv)
{
	static void *(*const all[])(void *) = {wait_in_epoll, wait_for_semaphore, sleep_and_poll,
					       write_much, read_slowly};
	enum { COUNT = sizeof(all) / sizeof(*all) };
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t threads[COUNT], other;
	sigset_t blocked;
	if (argc > 1)
		rounds = atoi(argv[1]);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, 0);
	CHECK(sigaction(SIGRTMIN, &action, 0) == 0);
	CHECK((semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
	CHECK((epoll = epoll_create1(0)) >= 0 && pipe(pipes) == 0);
	CHECK(pthread_create(&other, 0, get_signals, 0) == 0);
	for (int i = 0; i < COUNT; i++)
		CHECK(pthread_create(&threads[i], 0, all[i], 0) == 0);
	for (int i = 0; i < SIGNALS; i++) {
		CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){i}) == 0);
		usleep(500);
	}
	for (int i = 0; i < COUNT; i++)
		pthread_join(threads[i], 0);
	while (arrived < SIGNALS)
		usleep(1000);
	over = 1;
	pthread_join(other, 0);
	semctl(semaphores, 0, IPC_RMID);
	printf("wrong %ld signals %ld\n", wrong, arrived);
	return 0;
}
