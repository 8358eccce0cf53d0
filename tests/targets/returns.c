// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; cflags=-fno-builtin -fno-inline; follow=yes
// returns JUMPS: forks twice inside a qsort, in the first thread and in another one, and
// jumps back to a setjmp. Says of each call of f0 how many calls it is inside of, and
// of each return that is not the first of its call what it returned.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int forks, inside;
static jmp_buf place;

static void leaf(void)
{
	f0(1);
	dprintf(1, "f0 %d %d\n", getpid(), inside);
}

static int compare(const void *a, const void *b)
{
	leaf();
	if (forks) {
		forks--;
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid)
			CHECK(waitpid(pid, NULL, 0) == pid);
		else
			dprintf(1, "fork %d 0\n", getpid());
		leaf();
	}
	return *(const int *)a - *(const int *)b;
}

static void *sort(void *argument)
{
	int numbers[] = {3, 1, 2};
	pid_t before = getpid();
	forks = 2;
	inside++;
	qsort(numbers, 3, sizeof numbers[0], compare);
	inside--;
	CHECK(numbers[0] == 1 && numbers[1] == 2 && numbers[2] == 3);
	if (getpid() != before)
		dprintf(1, "qsort %d 0\n", getpid());
	leaf();
	if (getpid() != before)
		_exit(0);
	return argument;
}

int main(int argc, char **argv)
{
	volatile int jumps = argc > 1 ? atoi(argv[1]) : 3;
	volatile int back = setjmp(place);
	if (back)
		dprintf(1, "_setjmp %d %d\n", getpid(), back);
	leaf();
	if (jumps--)
		longjmp(place, jumps + 7);
	sort(NULL);
	pthread_t thread;
	pthread_create(&thread, NULL, sort, NULL);
	pthread_join(thread, NULL);
	leaf();
	return 0;
}
