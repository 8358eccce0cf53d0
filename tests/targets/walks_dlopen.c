// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=walker; cflags=-fno-inline; follow=yes; select=fcall,dlopen
// A plug-in that comes and goes with the unwinder that it walks over the stack with, in a
// forked child, too; and backtrace after that.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

COUNTED(dlopen);
COUNTED(fcall);

static char path[4096];

static void come_and_go(const char *who, int depth)
{
	void *plugin = CALL(dlopen, path, RTLD_NOW);
	unsigned long (*walker)(int);

	CHECK(plugin);
	walker = (unsigned long (*)(int))dlsym(plugin, "walker");
	CHECK(walker);
	printf("%s: %lx\n", who, walker(depth));
	calls_of_fcall += depth;
	CHECK(!dlclose(plugin));
}

static int counted(int size)
{
	void *frames[64];

	printf("%d frames\n", backtrace(frames, size));
	return size;
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	(void)argc;
	CHECK(strlen(argv[0]) < sizeof(path) - 20);
	strcpy(path, argv[0]);
	strcpy(strrchr(path, '/') ? strrchr(path, '/') + 1 : path, "libwalker.so");
	for (int i = 0; i < 20; i++)
		come_and_go("parent", i % 7);
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		truth_role = "child";
		RESET(fcall);
		RESET(dlopen);
		for (int i = 0; i < 5; i++)
			come_and_go("child", 0);
		(void)counted(64);
		(void)counted(1);
		fflush(stdout);
		REPORT(fcall);
		REPORT(dlopen);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (int size = 1; size < 8; size++) {
		(void)CALL(fcall, counted, size);
		come_and_go("parent", size);
	}
	REPORT(fcall);
	REPORT(dlopen);
	return 0;
}
