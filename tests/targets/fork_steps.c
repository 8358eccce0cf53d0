// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// fork_steps WHO FIRST STEP: a signal handler forks at instructions of a hooked call, in turn: at
// the one with the number FIRST, and at each STEPth after it. Parent and child go on from there, WHO
// ("parent" or "child") first. It begins when it has read a line, and says how many calls the parent
// has made.
#define _GNU_SOURCE
#include "leaf.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRAP_FLAG = 0x100, MORE = 3 };

static long left; // instructions to go
static int parent_first, is_child, ends[2];
static pid_t forked;

static void end_of(pid_t child)
{
	int status = 0;

	if (waitpid(child, &status, 0) != child || status)
		abort();
}

static void on_step(int number, siginfo_t *info, void *context)
{
	char byte;

	(void)number;
	(void)info;
	if (--left > 0)
		return;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	forked = (pid_t)syscall(SYS_fork);
	is_child = !forked;
	if (is_child && parent_first)
		(void)!read(ends[0], &byte, 1);
	else if (!is_child && !parent_first)
		end_of(forked);
}

static void set_trap_flag(unsigned long flag)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $-0x101, (%%rsp)\n\t"
			 "orq %0, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
			 :
			 : "r"(flag)
			 : "memory", "cc");
}

static int call(int x)
{
	return f0(x);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	long made = 0, first = argc > 2 ? atol(argv[2]) : 1, step = argc > 3 ? atol(argv[3]) : 1;

	parent_first = argc > 1 && !strcmp(argv[1], "parent");
	if (pipe(ends) || sigaction(SIGTRAP, &action, NULL))
		return 2;
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 2;
	for (long place = first;; place += step) {
		forked = 0;
		for (int i = 0; i < 1 + MORE; i++, made++) {
			left = place;
			if (i == 1)
				set_trap_flag(TRAP_FLAG);
			if (call(i) != i + 1)
				return 3;
			set_trap_flag(0);
			if (is_child)
				_exit(0);
		}
		if (!forked)
			break;
		if (parent_first) {
			if (write(ends[1], "", 1) != 1)
				return 4;
			end_of(forked);
		}
	}
	printf("made %ld\n", made);
	return 0;
}
