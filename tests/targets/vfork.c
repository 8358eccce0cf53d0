// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; follow=yes; select=vfork@MAIN,f0; cflags=-fno-ipa-ra
// A child on its parent's memory and stack, which calls hooked functions.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long by_parent, by_child, vforks;

int main(void)
{
	volatile long sum = 0;
	for (volatile int i = 0; i < 50; i++) {
		sum += f0(1);
		by_parent++;
		vforks++;
		pid_t pid = vfork();
		if (!pid) {
			sum += f0(2);
			by_child++;
			_exit(i);
		}
		sum += f0(3);
		by_parent++;
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
	}
	truth_calls("f0", by_parent);
	truth_calls("vfork", vforks);
	truth_role = "vfork";
	truth_calls("f0", by_child);
	printf("vfork %ld\n", sum);
	return 0;
}
