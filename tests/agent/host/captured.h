// SPDX-License-Identifier: Apache-2.0
// Records of capture programs, read back: what the tests of such programs share.
#ifndef CAPTURED_H
#define CAPTURED_H

#include "host.h"

#include "base/arch.h"
#include "call/cell.h"
#include "call/handler.h"
#include "image/namespace.h"
#include "call/site.h"
#include "thread/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { CELL = 3, ENTRY = 4096, EXIT = 8192 };

struct got { // one item, put together again
	uint8_t kind, item;
	uint32_t flags, size;
	uint8_t bytes[8192];
};

static struct got items[32];
static int item_count;
static struct sosc_function *function;
static struct sosc_thread *thread;
static struct {
	struct sosc_regs regs;
	uint64_t stack[16];
} frame __attribute__((aligned(16)));

static struct sosc_op *program(uint32_t offset)
{
	return (void *)((uint8_t *)sosc_section(SOSC_SEC_FUNCTIONS) + offset);
}

// Reads the last record of this thread; @type is its first unit's.
static const void *record(uint32_t type)
{
	uint8_t *end = (uint8_t *)thread->pos, *at = end;
	const uint32_t *first;

	item_count = 0;
	do {
		at -= SOSC_UNIT;
		CHECK(*(uint32_t *)at >> 28 == SOSC_UNIT_DATA || *(uint32_t *)at >> 28 == type);
	} while (*(uint32_t *)at >> 28 == SOSC_UNIT_DATA);
	first = (const uint32_t *)at;
	CHECK((*first & 0xfffffff) == CELL);
	for (at += SOSC_UNIT; at < end; at += SOSC_UNIT) {
		const struct sosc_data *unit = (const void *)at;
		uint32_t left = unit->commit & 0xffff, kind = unit->commit >> 24 & 15;
		struct got *got = &items[item_count];

		if (kind != SOSC_DATA_MORE) {
			item_count++;
			*got = (struct got){.kind = (uint8_t)kind,
					    .flags = unit->aux,
					    .item = (uint8_t)(unit->commit >> 16)};
		} else {
			got = &items[item_count - 1];
			CHECK(got->item == (uint8_t)(unit->commit >> 16));
		}
		memcpy(got->bytes + got->size, unit->payload, left < 24 ? left : 24);
		got->size += left < 24 ? left : 24;
	}
	return first;
}

static const struct sosc_entry *enter(const struct sosc_op *ops, uint32_t count)
{
	memcpy(program(ENTRY), ops, count * sizeof(*ops));
	program(ENTRY)[count] = (struct sosc_op){.op = SOSC_OP_END};
	frame.regs.r11 = (uint64_t)&sosc_cells[CELL];
	frame.regs.ret = 0x400123;
	CHECK(sosc_trace_entry(&frame.regs) == sosc_site_find(0x400123, &sosc_cells[CELL]));
	return record(SOSC_UNIT_ENTRY);
}

static const struct sosc_exit *leave(const struct sosc_op *ops, uint32_t count, uint64_t result)
{
	memcpy(program(EXIT), ops, count * sizeof(*ops));
	program(EXIT)[count] = (struct sosc_op){.op = SOSC_OP_END};
	frame.regs.r11 = sosc_site_find(0x400123, &sosc_cells[CELL]);
	frame.regs.rax = result;
	sosc_trace_exit(&frame.regs);
	return record(SOSC_UNIT_EXIT);
}

static bool is(const struct got *got, uint32_t kind, uint32_t flags, const void *bytes,
	       uint32_t size)
{
	return got->kind == kind && got->flags == flags && got->size == size &&
	       !memcmp(got->bytes, bytes, size);
}

static char *edge; // the first byte that is not there

static void captured_begin(void)
{
	static uint8_t functions[EXIT + 4096];
	uint8_t *map = mmap(NULL, 3 * SOSC_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED && munmap(map + 2 * SOSC_PAGE, SOSC_PAGE) == 0);
	edge = (char *)map + 2 * SOSC_PAGE;
	for (int i = 0; i < 2 * SOSC_PAGE; i++)
		map[i] = (uint8_t)(i * 7 + 1);
	host_control(SOSC_INSTRUMENT_TRACE, 256);
	sosc_control->when_full = SOSC_FULL_OVERWRITE;
	host_section(SOSC_SEC_FUNCTIONS, functions, sizeof(functions));
	function = (void *)program(256);
	function->flags = SOSC_FN_PROGRAM | SOSC_FN_EXIT_PROGRAM;
	function->entry_program = ENTRY;
	function->exit_program = EXIT;
	host_cell(CELL, function);
	thread = sosc_thread_self();
	CHECK(thread);
}

#endif
