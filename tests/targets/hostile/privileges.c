/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process and its child, which drops its privileges, as servers have them. The child looks for
 * memory that soscope shares with its parent, and has that say that all parts of it lie in the
 * parent's own data. Prints "BLOCKS SEEN CHANGED": blocks of shared memory that the child can
 * write to, how often it has found the parent's arguments there, and how many words of the
 * parent's data have changed in the end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (1 << 20)
#define SECTIONS 16
#define AT 104 /* of the sections in the control block */
#define NOBODY 65534
#define ARGUMENT "SECRET_OF_ROOT"

static uint64_t data[WORDS] __attribute__((aligned(16384)));

struct seen {
	long blocks, found;
};

static void look(struct seen *seen)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, end;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "memfd:soscope") || !strstr(line, " rw-s ") ||
		    sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		seen->blocks++;
		for (uint64_t at = start; at < end && at < start + (4 << 20); at++)
			seen->found += !memcmp((void *)at, ARGUMENT, 8);
		for (int i = 0; seen->blocks == 1 && i < SECTIONS; i++)
			((uint64_t *)(start + AT))[2 * i] = (uint64_t)data - start;
	}
}

int main(void)
{
	struct seen *seen =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long changed = 0;
	pid_t child;

	for (int i = 0; i < 300; i++)
		getenv(ARGUMENT);
	child = fork();
	if (!child) {
		if (setgid(NOBODY) || setuid(NOBODY))
			return 1;
		look(seen);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	for (int i = 0; i < 3000; i++)
		getenv(ARGUMENT);
	for (int i = 0; i < WORDS; i++)
		changed += data[i] != 0;
	printf("%ld %ld %ld\n", seen->blocks, seen->found, changed);
	return 7;
}
