// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread
// Everything that a program can see of its surroundings: it prints what must be the
// same without soscope.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

COUNTED(f0);

static void status(void)
{
	static const char *const wanted[] = {"Threads:", "SigBlk:", "SigIgn:",	"SigPnd:",
					     "ShdPnd:",	 "SigCgt:", "Seccomp:", "NoNewPrivs:"};
	char line[4096];
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file);
	while (fgets(line, sizeof line, file))
		for (unsigned i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
			if (!strncmp(line, wanted[i], strlen(wanted[i])))
				fputs(line, stdout);
	fclose(file);
}

static void descriptors(void)
{
	int ends[2];
	CHECK(pipe(ends) == 0);
	int opened = open("/dev/null", O_RDONLY), copied = dup(opened);
	printf("descriptors %d %d %d %d\n", ends[0], ends[1], opened, copied);
	for (int fd = 0; fd < 2048; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			printf("open %d\n", fd);
}

static void auxiliary(void)
{
	const unsigned long *after = (const unsigned long *)environ;
	while (*after++)
		;
	int count = 0;
	for (; after[0] != AT_NULL; after += 2)
		count++;
	printf("auxv %d page %lu phnum %lu secure %lu clktck %lu\n", count, getauxval(AT_PAGESZ),
	       getauxval(AT_PHNUM), getauxval(AT_SECURE), getauxval(AT_CLKTCK));
}

int main(int argc, char **argv)
{
	CALL(f0, 1);
	for (int i = 1; i < argc; i++)
		printf("argument %s\n", argv[i]);
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "SOSC_TRUTH", 10) != 0)
			puts(*e);
	status();
	descriptors();
	auxiliary();
	static const int limits[] = {RLIMIT_NOFILE, RLIMIT_AS,	    RLIMIT_FSIZE,
				     RLIMIT_CORE,   RLIMIT_MEMLOCK, RLIMIT_STACK};
	for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		struct rlimit limit;
		getrlimit((__rlimit_resource_t)limits[i], &limit);
		printf("limit %d %lx %lx\n", limits[i], limit.rlim_cur, limit.rlim_max);
	}
	printf("dumpable %d name %s\n", prctl(PR_GET_DUMPABLE), program_invocation_short_name);
	struct sigaction action;
	for (int i = 1; i < NSIG; i++)
		if (sigaction(i, 0, &action) == 0 && action.sa_handler != SIG_DFL)
			printf("handler of %d: %s\n", i,
			       action.sa_handler == SIG_IGN ? "ignore" : "set");
	REPORT(f0);
	return 0;
}
