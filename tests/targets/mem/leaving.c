// SPDX-License-Identifier: Apache-2.0
// Calls that never return, and one whose arguments lie on the stack. A library for traced.py.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;

static void leave(int number)
{
	siglongjmp(back, number);
}

/** Leave read() from a signal handler, @times; how often that was done. */
int by_longjmp(int times)
{
	volatile int done = 0;
	int ends[2];
	char byte;
	struct sigaction action = {.sa_handler = leave}, before;

	if (pipe(ends) || sigaction(SIGALRM, &action, &before))
		return -1;
	while (done < times)
		if (sigsetjmp(back, 1) == 0) {
			struct itimerval soon = {.it_value.tv_usec = 20000};

			// when read() has begun
			setitimer(ITIMER_REAL, &soon, NULL);
			if (read(ends[0], &byte, 1) < 0)
				break;
		} else {
			done++;
		}
	sigaction(SIGALRM, &before, NULL);
	close(ends[0]);
	close(ends[1]);
	return done;
}

static void count(void *number)
{
	__atomic_fetch_add((int *)number, 1, __ATOMIC_RELAXED);
}

static int waiting[2], cleaned;

static void *wait_for_ever(void *unused)
{
	char byte;

	pthread_cleanup_push(count, &cleaned);
	if (read(waiting[0], &byte, 1) < 0)
		perror("read");
	pthread_cleanup_pop(0);
	return unused;
}

/** Cancel threads in read(): their frames are unwound. How many cleaned up. */
int by_cancel(int times)
{
	pthread_t thread;
	void *result;

	cleaned = 0;
	if (pipe(waiting))
		return -1;
	for (int i = 0; i < times; i++) {
		if (pthread_create(&thread, NULL, wait_for_ever, NULL))
			return -1;
		usleep(1000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			return -1;
	}
	close(waiting[0]);
	close(waiting[1]);
	return cleaned;
}

void *redisCommand(void *text, const char *format, ...);
int memcached_cas_by_key(long a, long b, long c, long d, long e, long f, long g, long h, long i,
			 long j);

/** Have many words, and numbers in vector registers, reach functions. 1: they did. */
int many_words(void)
{
	char text[400];

	redisCommand(text, "%d %.1f %s %d %d %d %d %.1f %d %d %d %d %d %d", 1, 2.5, "3", 4, 5, 6, 7,
		     8.5, 9, 10, 11, 12, 13, 14);
	return strcmp(text, "1 2.5 3 4 5 6 7 8.5 9 10 11 12 13 14") == 0 &&
	       memcached_cas_by_key(1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009) ==
		       14;
}

static ucontext_t outside, inside;
static char said[100];

static void at_the_top(void)
{
	redisCommand(said, "%d %s", 1, "two");
}

/** Call a function with few words from the first frame of a stack behind which there is nothing. */
int by_stack_end(void)
{
	enum { SIZE = 1 << 16, PAGE = 4096 };
	char *stack =
		mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || mprotect(stack + SIZE, PAGE, PROT_NONE) || getcontext(&inside))
		return -1;
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = SIZE;
	inside.uc_link = &outside;
	makecontext(&inside, at_the_top, 0);
	if (swapcontext(&outside, &inside))
		return -1;
	munmap(stack, SIZE + PAGE);
	return strcmp(said, "1 two") == 0;
}
