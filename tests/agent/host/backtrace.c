// SPDX-License-Identifier: Apache-2.0
// backtrace.c, with an unwinder that reads its frames from a list: what a program is told must
// be the frames of its own in that list, whatever of the agent's lies between them.
#include "host.h"

#include "hook/backtrace.h"
#include "call/cell.h"
#include "image/image.h"
#include "image/lookup.h"
#include "call/site.h"
#include "entry/start.h"

#include <string.h>

enum { FRAMES = 80, BEGIN = 1000, STEPS = 20000 };

struct frame {
	uint64_t ip, cfa;
};

static struct frame stack[2 * FRAMES]; // as the unwinder finds it
static int frames;
static uint64_t own[FRAMES + 1]; // the program's, in order
static int owns;
static int at; // of the frame that a step is told of
static int asked;

static uint64_t random_state = 88172645463325252ull;

static uint64_t chance(uint64_t below)
{
	return host_random(&random_state) % below;
}

// ---- the unwinder ------------------------------------------------------------

static uint64_t get_ip(void *context)
{
	return ((struct frame *)context)->ip;
}

static uint64_t get_cfa(void *context)
{
	return ((struct frame *)context)->cfa;
}

static uint64_t get_ip_info(void *context, int *before)
{
	*before = 1;
	return ((struct frame *)context)->ip;
}

static int walk(sosc_step *step, void *data)
{
	struct frame ours = {.ip = sosc_base + 64};

	asked++;
	for (int i = 0; i < 2; i++) // of those that have called it
		if (step(&ours, data))
			return 3;
	for (at = 0; at < frames; at++)
		if (step(&stack[at], data))
			return 3;
	return 5;
}

static int backtrace_of_libc(void **buffer, int size)
{
	int count = 0;

	asked++;
	for (int i = 0; i < 2 && count < size; i++)
		buffer[count++] = (void *)(sosc_base + 64);
	for (int i = 0; i < frames && count < size && stack[i].ip; i++)
		buffer[count++] = (void *)stack[i].ip;
	return count;
}

// An image with a symbol table of these, found by the older kind of hash table: one bucket.
static const char strings[] = "\0_Unwind_Backtrace\0_Unwind_GetIP\0_Unwind_GetCFA\0backtrace";
static Elf64_Sym symbols[5];
static uint32_t hash[] = {1, 5, 1, 0, 2, 3, 4, 0};

static void define(int number, const char *name, void *function)
{
	const char *place = strings + 1;

	while (strcmp(place, name) != 0)
		place += strlen(place) + 1;
	symbols[number] = (Elf64_Sym){
		.st_name = (uint32_t)(place - strings),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = (uint64_t)function,
	};
}

static struct sosc_loaded image(const char *name)
{
	define(1, "_Unwind_Backtrace", walk);
	define(2, "_Unwind_GetIP", get_ip);
	define(3, "_Unwind_GetCFA", get_cfa);
	define(4, "backtrace", backtrace_of_libc);
	return (struct sosc_loaded){
		.name = name,
		.symtab = symbols,
		.strtab = strings,
		.strsz = sizeof(strings),
		.sysv_hash = hash,
		.end = UINT64_MAX,
	};
}

// ---- stacks ------------------------------------------------------------------

static uint64_t site_for(uint64_t ret)
{
	uint64_t code = sosc_site_find(ret, &sosc_cells[5]);

	CHECK(code);
	CHECK(sosc_site_returns_to(code + 14) == ret);
	return code + 14;
}

static void make_stack(void)
{
	uint64_t addr;

	frames = owns = 0;
	for (int left = (int)chance(FRAMES); left >= 0; left--) {
		addr = BEGIN + chance(500) * 16;
		if (chance(3) == 0) {
			stack[frames++].ip = site_for(addr);
			if (chance(8) == 0) { // the unwinder goes on to the next one
				own[owns++] = addr;
				stack[frames++].ip = addr; // exact: no signal frame
				continue;
			}
			stack[frames++].ip = addr - 1;
		} else {
			if (chance(9) == 0)
				stack[frames++].ip = sosc_base + 0x1000 + chance(0x1000);
			stack[frames++].ip = addr;
		}
		own[owns++] = addr;
	}
	for (int i = 0; i < frames; i++)
		stack[i].cfa = (uint64_t)i;
}

struct told {
	int count, stop_after;
	const struct sosc_cell *ip, *ip_info;
};

static int step(void *context, void *data)
{
	struct told *told = data;
	int before = 1;

	CHECK(told->count < owns);
	CHECK(sosc_walk_ip(context, (void *)1, (struct sosc_cell *)told->ip) == own[told->count]);
	CHECK(sosc_walk_ip_info(context, &before, (struct sosc_cell *)told->ip_info) ==
	      own[told->count]);
	CHECK(before == (get_ip(context) == own[told->count]));
	return ++told->count == told->stop_after;
}

static void check_walk(struct sosc_cell *cell)
{
	struct told told = {.stop_after = (int)chance(100), .ip = cell + 1, .ip_info = cell + 2};
	int wanted = told.stop_after && told.stop_after < owns ? told.stop_after : owns;
	int result = sosc_walk(step, &told, cell);

	CHECK(told.count == wanted);
	CHECK(result == (told.stop_after && told.stop_after <= owns ? 3 : 5));
}

static void check_backtrace(struct sosc_cell *cell)
{
	int size = 1 + (int)chance(FRAMES + 20), wanted = size < owns ? size : owns;
	void **buffer = calloc((size_t)size, sizeof(void *)); // exactly: what is behind it is seen
	int count = sosc_backtrace(buffer, size, cell);

	CHECK(count == wanted);
	for (int i = 0; i < size; i++)
		CHECK((uint64_t)buffer[i] == (i < count ? own[i] : 0));
	free(buffer);
}

int main(void)
{
	struct sosc_loaded libgcc = image("libgcc_s.so.1"), libc = image("libc.so.6");
	struct sosc_cell *walks, *backtraces;
	void *buffer[8];

	(void)host_control(SOSC_INSTRUMENT_STATS, 0);
	sosc_base = (uint64_t)sosc_entries - SOSC_BLOB_ENTRIES;
	walks = host_cell(10, NULL);
	(void)host_cell(11, NULL);
	(void)host_cell(12, NULL);
	backtraces = host_cell(13, NULL);
	(void)host_cell(5, NULL);
	walks[0].original = (uint64_t)walk;
	walks[1].original = (uint64_t)get_ip;
	walks[2].original = (uint64_t)get_ip_info;
	backtraces->original = (uint64_t)backtrace_of_libc;

	make_stack();
	CHECK(sosc_walk(step, NULL, walks) == -1); // an unwinder that nobody knows
	CHECK(sosc_backtrace(buffer, 0, backtraces) == -1);
	CHECK(sosc_backtrace(buffer, 2, backtraces) == -1); // full, and no way to ask for more
	sosc_unwinder_learn(&libgcc);
	sosc_unwinder_learn(&libc);
	for (int i = 0; i < STEPS; i++) {
		make_stack();
		check_walk(walks);
		check_backtrace(backtraces);
	}

	// where the unwinder does not get past the agent, nothing is told
	frames = 0;
	CHECK(sosc_walk(step, NULL, walks) == -1);
	CHECK(sosc_backtrace(buffer, 8, backtraces) == -1);

	make_stack();
	sosc_unwinder_forget(&libgcc);
	CHECK(sosc_walk(step, NULL, walks) == -1);
	CHECK(asked > STEPS);
	puts("done");
	return 0;
}
