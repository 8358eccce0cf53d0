// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// A seccomp filter that kills the process at some system calls that threads can do without, the
// agent's among them. Threads come afterwards, more than have counters that are ready.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { THREADS = 40, CALLS = 100 };

#define KILL(number)                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static pthread_barrier_t all;

static void *run(void *argument)
{
	int x = 0;

	for (int i = 0; i < CALLS; i++)
		x = f0(x);
	CHECK(x == CALLS);
	pthread_barrier_wait(&all);
	return argument;
}

int main(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL(gettid),
		KILL(mremap),
		KILL(process_vm_readv),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
	pthread_t threads[THREADS];

	CHECK(pthread_barrier_init(&all, 0, THREADS) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&threads[i], 0, run, 0) == 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(threads[i], 0) == 0);
	}
	truth_calls("f0", 2L * THREADS * CALLS);
	puts("filtered");
	return 0;
}
