// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline -fno-optimize-sibling-calls; follow=yes; runs=0|1
// A forked child walks over a stack that has its parent's hooked calls on it. Argument 1: nobody
// has asked for a backtrace before, so that the child's C library loads its unwinder.
#include "walks.h"
#include "leaf.h"
#include "truth.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(fcall);

static void say(const char *who)
{
	struct walked heard = {.most = -1};
	void *frames[WALK_MOST];

	for (int size = 1; size < 40; size++) {
		int count = backtrace(frames, size);
		for (int i = 0; i < count; i++)
			walked_add(&heard, frames[i]);
	}
	(void)walk(&heard);
	printf("%s: %d frames %lx\n", who, heard.count, heard.hash);
	fflush(stdout);
}

static int forks(int x)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		truth_role = "child";
		RESET(fcall);
		say("child");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	say("parent");
	return x;
}

static int deeper(int x)
{
	return CALL(fcall, forks, x) + 1;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !atoi(argv[1]))
		say("before");
	for (int i = 0; i < 3; i++)
		(void)CALL(fcall, deeper, i);
	REPORT(fcall);
	return 0;
}
