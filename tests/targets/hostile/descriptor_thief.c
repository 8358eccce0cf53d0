/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose child shares its descriptors and nothing else. Whatever file the process opens,
 * the child puts another one in its place: "swap FILE" one that it may only read, "cut" keeps the
 * file and cuts it to nothing when the process has made two hundred calls more.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 8
#define CALLS_BEFORE 200

static char stack[1 << 16] __attribute__((aligned(16)));
static int given = -1;
static int first;
static volatile int *calls;

static int steal(void *unused)
{
	int kept[FILES], seen[FILES];
	struct stat ours, there;

	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(kept, -1, sizeof(kept));
	if (given >= 0)
		fstat(given, &ours);
	for (;; given < 0 ? usleep(500) : 0)
		for (int i = 0; i < FILES; i++) {
			int is_open = fstat(first + i, &there) == 0;

			if (given >= 0 && is_open && there.st_ino != ours.st_ino)
				dup2(given, first + i);
			if (given < 0 && is_open && kept[i] < 0) {
				kept[i] = fcntl(first + i, F_DUPFD, 100);
				seen[i] = *calls;
			}
			if (given < 0 && kept[i] >= 0 && *calls > seen[i] + CALLS_BEFORE)
				(void)!ftruncate(kept[i], 0);
		}
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd input = {0, POLLIN, 0};

	if (argc > 2)
		given = open(argv[2], O_RDONLY);
	calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	first = dup(0);
	close(first);
	clone(steal, stack + sizeof(stack), CLONE_FILES | SIGCHLD, NULL);
	puts("ready");
	fflush(stdout);
	for (; poll(&input, 1, 1) == 0; ++*calls)
		getenv("HOME");
	return 7;
}
