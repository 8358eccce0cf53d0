// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; follow=yes; runs=40
// new_stacks N [tell]: N threads (two at least) that come and go while others stay, each on
// memory that no thread had before it: the memory of some is gone afterwards. A timer's signals
// interrupt them all. Some children have threads as well. "tell": it says last how much of
// soscope's memory it shares, in KiB.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 65536, STAY = 3, CALLS = 50, FORK_EVERY = 64 };

static atomic_long made_f0, made_f1;
static atomic_int over;

static void interrupted(int number)
{
	f1(number);
	atomic_fetch_add(&made_f1, 1);
}

static void *comes(void *argument)
{
	int x = 0;

	for (int i = 0; i < CALLS; i++)
		x = f0(x);
	atomic_fetch_add(&made_f0, CALLS);
	CHECK(x == CALLS);
	return argument;
}

static void *stays(void *argument)
{
	while (!over) {
		comes(argument);
		usleep(1000);
	}
	return argument;
}

static pthread_t begin(void *(*run)(void *), char **stack)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	*stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(*stack != MAP_FAILED);
	pthread_attr_init(&attributes);
	CHECK(pthread_attr_setstack(&attributes, *stack, STACK) == 0);
	error = pthread_create(&thread, &attributes, run, 0);
	CHECK(error == 0);
	return thread;
}

// The next stack lies elsewhere.
static void end(pthread_t thread, char *stack, int gone)
{
	CHECK(pthread_join(thread, 0) == 0);
	if (gone)
		CHECK(mmap(stack, STACK, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0) == stack);
}

static void fork_here(void)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		char *stack;

		made_f0 = made_f1 = 0;
		comes(0);
		for (int i = 0; i < STAY; i++)
			end(begin(comes, &stack), stack, 0);
		truth_role = "child";
		truth_calls("f0", made_f0);
		truth_calls("f1", made_f1); // a timer is no child's
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static unsigned long shared(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, last, sum = 0;
	char line[1024];

	CHECK(maps != 0);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, " rw-s ") && strstr(line, "soscope") &&
		    sscanf(line, "%lx-%lx", &start, &last) == 2)
			sum += last - start;
	fclose(maps);
	return sum >> 10;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = interrupted, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	int count = argc > 1 ? atoi(argv[1]) : 100;
	char *stacks[STAY], *stack[2];
	pthread_t staying[STAY], thread[2];

	sigaction(SIGALRM, &action, 0);
	for (int i = 0; i < STAY; i++)
		staying[i] = begin(stays, &stacks[i]);
	setitimer(ITIMER_REAL, &every, 0);
	for (int i = 0; i < count; i++) {
		if (i >= 2)
			end(thread[i % 2], stack[i % 2], i & 2);
		thread[i % 2] = begin(comes, &stack[i % 2]);
		if (i % FORK_EVERY == FORK_EVERY - 1)
			fork_here();
	}
	for (int i = 0; i < 2; i++)
		end(thread[i], stack[i], 1);
	over = 1;
	for (int i = 0; i < STAY; i++)
		end(staying[i], stacks[i], 0);
	setitimer(ITIMER_REAL, &never, 0);
	truth_calls("f0", made_f0);
	truth_calls("f1", made_f1);
	printf("%lu\n", argc > 2 ? shared() : 0);
	return 0;
}
