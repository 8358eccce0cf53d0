// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// Runs until a line comes in. Each thread waits in a system call of its own kind, again and
// again, and counts returns that no wait may have: EINTR, too early, or much too late.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MS = 60, LATE = 5000 };

static atomic_int over;
static int pipes[2];

static struct timespec span(void)
{
	return (struct timespec){0, MS * 1000000L};
}

static int in_nanosleep(void)
{
	struct timespec time = span();

	return nanosleep(&time, &time);
}

static int in_clock_nanosleep(void)
{
	struct timespec time = span();

	return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time);
}

static int in_usleep(void)
{
	return usleep(MS * 1000);
}

static int in_poll(void)
{
	return poll(NULL, 0, MS);
}

static int in_select(void)
{
	struct timeval time = {0, MS * 1000};

	return select(0, NULL, NULL, NULL, &time);
}

static int in_epoll(void)
{
	struct epoll_event event;
	static int epoll;

	if (!epoll)
		epoll = epoll_create1(0);
	return epoll_wait(epoll, &event, 1, MS);
}

static int in_epoll_pwait2(void)
{
	struct timespec time = span();
	struct epoll_event event;
	static int epoll;

	if (!epoll)
		epoll = epoll_create1(0);
	return (int)syscall(SYS_epoll_pwait2, epoll, &event, 1, &time, NULL, 0);
}

static int in_futex(void)
{
	struct timespec time = span();
	int word = 0;

	return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0) < 0 && errno == ETIMEDOUT ?
		       0 :
		       -1;
}

static int in_semaphore(void)
{
	struct timespec time;
	sem_t sem;

	sem_init(&sem, 0, 0);
	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_nsec += MS * 1000000L;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return sem_timedwait(&sem, &time) < 0 && errno == ETIMEDOUT ? 0 : -1;
}

static int in_sigtimedwait(void)
{
	struct timespec time = span();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &time) < 0 && errno == EAGAIN ? 0 : -1;
}

static int in_read(void)
{
	char byte;

	return read(pipes[0], &byte, 1) == 1 ? 0 : -1;
}

static const struct {
	int (*wait)(void);
	int least; // ms
} kinds[] = {
	{in_nanosleep, MS}, {in_clock_nanosleep, MS}, {in_usleep, MS},
	{in_poll, MS},	    {in_select, MS},	      {in_epoll, MS},
	{in_futex, MS},	    {in_semaphore, MS},	      {in_sigtimedwait, MS},
	{in_read, 0},	    {in_epoll_pwait2, MS},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static atomic_long wrong[KINDS], waits;

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *work(void *argument)
{
	long kind = (long)argument;

	while (!over) {
		long start = now_ms(), took;
		int result = kinds[kind].wait();

		took = now_ms() - start;
		// the clocks of time-outs and of looking differ by a millisecond
		wrong[kind] += result != 0 || took < kinds[kind].least - 1 || took > LATE;
		waits++;
	}
	return NULL;
}

static void *feed(void *argument)
{
	(void)argument;
	while (!over) {
		usleep(MS * 500);
		if (write(pipes[1], "x", 1) != 1)
			abort();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[KINDS + 1];
	long all = 0;
	char line[8];

	if (pipe(pipes))
		return 1;
	signal(SIGUSR2, SIG_DFL);
	pthread_create(&threads[KINDS], NULL, feed, NULL);
	for (long i = 0; i < KINDS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	over = 1;
	if (write(pipes[1], "x", 1) != 1)
		return 1;
	for (int i = 0; i <= KINDS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < KINDS; i++) {
		if (wrong[i])
			fprintf(stderr, "kind %d: %ld wrong\n", i, (long)wrong[i]);
		all += wrong[i];
	}
	printf("wrong %ld, waited %d\n", all, waits > KINDS);
	return all ? 2 : 7;
}
