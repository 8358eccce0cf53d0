// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; runs=files|size|space|lock|close
// limits WHAT: a program that limits itself, then calls for the first time in
// another thread: no descriptor left, no file may grow, no address space, all memory
// locked, every descriptor closed.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(f1);

static pthread_barrier_t limited;

static void *run(void *argument)
{
	pthread_barrier_wait(&limited);
	for (int i = 0; i < 20000; i++)
		CALL(f1, i);
	return argument;
}

static void limit(int what, rlim_t value)
{
	struct rlimit both = {value, value};
	CHECK(setrlimit((__rlimit_resource_t)what, &both) == 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "files";
	pthread_t thread;
	pthread_barrier_init(&limited, 0, 2);
	CHECK(pthread_create(&thread, 0, run, 0) == 0);
	for (int i = 0; i < 100; i++)
		CALL(f0, i);
	int locked = 0;
	truth_hold();
	if (!strcmp(what, "files")) {
		while (dup(0) >= 0)
			;
		CHECK(errno == EMFILE);
		limit(RLIMIT_NOFILE, 0);
	} else if (!strcmp(what, "size")) { // the account may not grow either
		truth_calls("f0", 200);
		truth_calls("f1", 20000);
		limit(RLIMIT_FSIZE, 0);
	} else if (!strcmp(what, "space")) {
		limit(RLIMIT_AS, 0);
		CHECK(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	} else if (!strcmp(what, "lock")) {
		locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
	} else {
		for (int fd = 3; fd < 4096; fd++)
			if (fd != truth_held)
				close(fd);
	}
	pthread_barrier_wait(&limited);
	pthread_join(thread, 0);
	for (int i = 0; i < 100; i++)
		CALL(f0, i);
	if (strcmp(what, "size") != 0) {
		REPORT(f0);
		REPORT(f1);
		printf("limit %s %d\n", what, locked);
	}
	return 0;
}
