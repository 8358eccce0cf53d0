// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; cflags=-fno-builtin
// Threads call hooked functions all the time. By lines on its input the program has each of
// them interrupted by a handler that waits there ("hold"; "step ADDR SIZE STRIDE": thread n
// where it has made n * STRIDE instructions in that range), lets the handlers return ("go"),
// and has each thread make a known number of calls ("count"). The handler calls hooked
// functions when it begins and before it returns.
#define _GNU_SOURCE
#include "leaf.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 128, KNOWN = 1000, TRAP_FLAG = 0x100 };

static pthread_t threads[MOST];
static int count;
static unsigned long start, size, stride;
static atomic_int stepping;
static __thread long left; // instructions to go
static __thread int begun;
static atomic_int busy, over, held, released, wanted, counted;
static atomic_long wrong;

static void wait_for(atomic_int *what, int value)
{
	while (atomic_load(what) != value)
		usleep(500);
}

static void on_signal(int number)
{
	int generation = atomic_load(&released);

	(void)number;
	if (f1(5) != 7)
		wrong++;
	held++;
	while (atomic_load(&released) == generation)
		syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
	if (f1(5) != 7)
		wrong++;
	held--;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	int inside = (unsigned long)registers[REG_RIP] - start < size;

	(void)info;
	begun |= !inside; // from the beginning of a call on
	if (!begun || !inside || --left > 0)
		return;
	registers[REG_EFL] &= ~TRAP_FLAG;
	on_signal(number);
}

static void *work(void *argument)
{
	int mine = 0, stepped = 0;
	char text[32];

	while (!atomic_load(&over)) {
		if (atomic_load(&stepping) != stepped) {
			stepped++;
			left = (long)((long)argument * stride);
			__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\t"
					 "popfq\n\tlea 128(%%rsp), %%rsp"
					 :
					 : "i"(TRAP_FLAG)
					 : "memory", "cc");
			if (f0(1) != 2 || f0(2) != 3)
				wrong++;
		}
		if (snprintf(text, sizeof(text), "%d %s", mine + 100, "text") != 8 ||
		    strcmp(text + 4, "text") != 0 || getenv("SOSCOPE_TEST_NOTHING"))
			wrong++;
		for (int i = 0; i < 50; i++)
			if (f0(i) != i + 1)
				wrong++;
		if (!atomic_load(&busy))
			usleep(20000);
		if (atomic_load(&wanted) != mine) {
			mine++;
			for (int i = 0; i < KNOWN; i++)
				if (f2(i) != i + 3)
					wrong++;
			counted++;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	char line[80];

	count = argc > 1 ? atoi(argv[1]) : 1;
	sigaction(SIGUSR1, &action, NULL);
	action.sa_sigaction = on_step;
	action.sa_flags |= SA_SIGINFO;
	sigaction(SIGTRAP, &action, NULL);
	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		if (!strcmp(line, "hold\n")) {
			busy = 1;
			usleep(20000);
			for (int i = 0; i < count; i++)
				pthread_kill(threads[i], SIGUSR1);
		}
		if (sscanf(line, "step %lx %lx %lu", &start, &size, &stride) == 3)
			stepping++;
		if (!strncmp(line, "hold", 4) || !strncmp(line, "step", 4))
			wait_for(&held, count);
		if (!strcmp(line, "go\n")) {
			busy = 0;
			released++;
			wait_for(&held, 0);
		}
		if (!strcmp(line, "count\n")) {
			counted = 0;
			wanted++;
			wait_for(&counted, count);
		}
		printf("%s", line);
		fflush(stdout);
	}
	over = 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("wrong %ld\n", atomic_load(&wrong));
	return wrong ? 2 : 7;
}
