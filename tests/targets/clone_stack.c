// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; follow=yes; select=clone@MAIN,f0
// clone() with a stack of its own: a copied process, and one that shares memory
// and keeps its parent waiting.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SIZE = 65536 };

COUNTED(f0);
COUNTED(clone);

static volatile long shared_calls;

static int copied(void *argument)
{
	truth_role = "child";
	RESET(f0);
	for (int i = 0; i < 50; i++)
		CALL(f0, i);
	REPORT(f0);
	return (int)(long)argument;
}

static int sharing(void *argument)
{
	for (int i = 0; i < 10; i++) {
		f0(i);
		shared_calls++;
	}
	return (int)(long)argument;
}

int main(void)
{
	char *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	for (long i = 1; i <= 5; i++) {
		int status;
		pid_t pid = CALL(clone, copied, stack + SIZE, SIGCHLD, (void *)i);
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
		pid = CALL(clone, sharing, stack + SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD,
			   (void *)i);
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
		CALL(f0, 1);
	}
	REPORT(f0);
	REPORT(clone);
	truth_role = "vfork";
	truth_calls("f0", shared_calls);
	puts("clone with a stack");
	return 0;
}
