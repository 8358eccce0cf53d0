// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// A seccomp filter that kills the process at any system call but a few: neither
// the thread that installed it nor the agent may make another.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

COUNTED(f0);
COUNTED(f1);

#define ALLOW(number)                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write),
		ALLOW(exit_group),
		ALLOW(getpid),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
	int x = 0;
	for (int i = 0; i < 100; i++)
		x = CALL(f0, x);
	truth_hold();
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	for (int i = 0; i < 100000; i++)
		x = CALL(f0, x);
	for (int i = 0; i < 1000; i++)
		x = CALL(f1, x);
	REPORT(f0);
	REPORT(f1);
	truth_sys(TRUTH_WRITE, 1, (long)"filtered\n", 9);
	truth_sys(TRUTH_EXIT, x == 102100 ? 0 : 1, 0, 0);
	return 1;
}
