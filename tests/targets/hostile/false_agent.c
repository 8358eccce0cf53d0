/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that pretends that an agent lies in it: "false_agent COUNT OWNER START [PAGES]". COUNT
 * is how much of everything the agent has, OWNER the process that it says is its soscope (0: none),
 * which started START ticks after the system did. In PAGES pages a word is changed, usually in one.
 */
#include <soscope/wire.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static char *map(uint64_t hint, uint64_t size)
{
	return mmap((void *)hint, size, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int main(int argc, char **argv)
{
	char *base = map(1ull << 40, SOSC_BLOB_SIZE), *big = map(0, 1ull << 36);
	struct sosc_inside *inside = (struct sosc_inside *)(base + SOSC_BLOB_DATA);
	struct sosc_control *control = (struct sosc_control *)big;
	struct sosc_change *change = (struct sosc_change *)(big + (1 << 20));
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	uint64_t pages = argc > 4 ? strtoull(argv[4], NULL, 0) : 1;
	char line[8];

	control->magic = SOSC_MAGIC;
	control->owner_pid = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
	control->owner_start = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	inside->wire_version = SOSC_WIRE_VERSION;
	inside->size = sizeof(*inside);
	inside->control = (uint64_t)control;
	inside->control_size = 4096;
	inside->changes = (uint64_t)change;
	inside->change_count = pages;
	for (uint64_t i = 0; i < pages; i++) {
		change[i].addr = (uint64_t)(big + (64 << 20) + i * 4096);
		change[i].before = 1;
		change[i].size = 8;
	}
	inside->cells = inside->sitedata = inside->counterdata = (uint64_t)(big + (1ull << 35));
	inside->cell_count = inside->site_count = inside->counter_count = count;
	inside->scratch = (uint64_t)(base + SOSC_BLOB_DATA + (1 << 20));
	inside->sessions = 1;
	inside->magic = SOSC_INSIDE_MAGIC;
	puts("ready");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) ? 7 : 1;
}
