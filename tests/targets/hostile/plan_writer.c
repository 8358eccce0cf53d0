/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A traced program that tries in all ways to write to the plan that soscope has for it: by the
 * mapping that it has, by a new one, and by soscope's own descriptors. Prints "PLANS TRIES DONE":
 * how many mapped plans it has found, how often it has tried to change one, and what of that has
 * been done. Then it calls getenv("THEN") ten times.
 *
 * With an argument it tries nothing. It writes random words into its control block for a while, of
 * which that argument is the seed, and calls getenv meanwhile.
 *
 * With "stay" it prints "ready" and calls getenv("STAY") until a line comes, tries, and ends.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <soscope/wire.h>

enum { MOST = 16 };

static struct mapping {
	uint64_t start, end;
	int writable;
} mappings[MOST];
static int count, plans, tries, done;

static void find(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], rights[8];

	count = 0;
	while (maps && count < MOST && fgets(line, sizeof(line), maps)) {
		struct mapping *at = &mappings[count];

		if (strstr(line, "memfd:soscope") &&
		    sscanf(line, "%lx-%lx %7s", &at->start, &at->end, rights) == 3 &&
		    rights[3] == 's') {
			at->writable = rights[1] == 'w';
			count++;
		}
	}
	if (maps)
		fclose(maps);
}

static void tried(int success)
{
	tries++;
	done += success != 0;
}

static void try_file(int fd, uint64_t size)
{
	void *map;

	tried(pwrite(fd, "x", 1, 64) == 1);
	tried(!ftruncate(fd, 0));
	tried(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size));
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	tried(map != MAP_FAILED);
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	tried(map != MAP_FAILED && !mprotect(map, size, PROT_READ | PROT_WRITE));
}

static int is_plan(int fd)
{
	uint64_t magic = 0;

	return pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == SOSC_PLAN_MAGIC;
}

static void try_link(const char *path, uint64_t size)
{
	int fd = open(path, O_RDWR | O_NONBLOCK);

	if (fd >= 0 && is_plan(fd))
		try_file(fd, size);
	if (fd >= 0)
		close(fd);
}

static void try_mapping(const struct mapping *at)
{
	struct iovec from = {"x", 1}, to = {(void *)(at->start + 64), 1};
	uint64_t size = at->end - at->start;
	char path[64];
	int memory = open("/proc/self/mem", O_RDWR);

	plans++;
	tried(!mprotect((void *)at->start, size, PROT_READ | PROT_WRITE));
	tried(!madvise((void *)at->start, size, MADV_REMOVE));
	tried(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 1);
	tried(memory >= 0 && pwrite(memory, "x", 1, (off_t)(at->start + 64)) == 1);
	if (memory >= 0)
		close(memory);
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", at->start, at->end);
	try_link(path, size);
}

// Descriptors of soscope: what it has still open of the plan.
static void try_owner(uint32_t pid, uint64_t size)
{
	char folder[64], path[384], to[64];
	struct dirent *entry;
	DIR *all;

	snprintf(folder, sizeof(folder), "/proc/%u/fd", pid);
	all = opendir(folder);
	while (all && (entry = readdir(all))) {
		ssize_t length;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		length = readlink(path, to, sizeof(to) - 1);
		if (length <= 0)
			continue;
		to[length] = 0;
		if (strstr(to, "memfd:soscope"))
			try_link(path, size);
	}
	if (all)
		closedir(all);
}

static void try_all(void)
{
	uint32_t owner = 0;

	find();
	for (int i = 0; i < count; i++) {
		const uint64_t *magic = (const void *)mappings[i].start;

		if (mappings[i].writable && *magic == SOSC_MAGIC)
			owner = ((const struct sosc_control *)magic)->owner_pid;
	}
	for (int i = 0; i < count; i++)
		if (!mappings[i].writable &&
		    *(const uint64_t *)mappings[i].start == SOSC_PLAN_MAGIC) {
			try_mapping(&mappings[i]);
			if (owner)
				try_owner(owner, mappings[i].end - mappings[i].start);
		}
	printf("%d %d %d\n", plans, tries, done);
	fflush(stdout);
}

static uint64_t state;

static uint64_t next(void)
{
	static const uint64_t nasty[] = {
		0,	    1,		0x7fffffff,	    0xffffffff,
		1ull << 32, 1ull << 63, 0xffffffffffffffff, 0x4141414141414141};

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state & 1 ? nasty[state >> 8 & 7] : state & 2 ? state : state & 0xffff;
}

static void spoil(void)
{
	find();
	for (int i = 0; i < count; i++) {
		uint64_t *words = (uint64_t *)mappings[i].start;
		uint64_t size = (mappings[i].end - mappings[i].start) / 8;

		if (!mappings[i].writable || !size)
			continue;
		for (int k = 0; k < 400; k++) // not who the owner is, nor that it wants no end
			words[8 + next() % ((k & 1 && size > 4096 ? 4096 : size) - 8)] = next();
	}
}

static void stay(void)
{
	struct pollfd line = {.fd = 0, .events = POLLIN};

	puts("ready");
	fflush(stdout);
	while (!poll(&line, 1, 1))
		getenv("STAY");
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 10; i++)
		getenv("FIRST");
	if (argc > 1 && !strcmp(argv[1], "stay"))
		stay();
	if (argc > 1 && strcmp(argv[1], "stay")) {
		state = strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15ull + 1;
		for (int i = 0; i < 20; i++) {
			spoil();
			getenv("SPOILT");
			usleep(5000);
		}
	} else {
		try_all();
	}
	for (int i = 0; i < 10; i++)
		getenv("THEN");
	_exit(7);
}
