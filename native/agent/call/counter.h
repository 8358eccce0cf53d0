// SPDX-License-Identifier: Apache-2.0
/** Counters: entry trampolines that themselves count by call site (arch_x86_64_pages.S). */
#ifndef SOSC_COUNTER_H
#define SOSC_COUNTER_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

enum { SOSC_COUNTER_SITES = 2 };

struct sosc_counter_site { // aligned to 16 bytes
	// return address of its calls; if the entry is free, the number of the session
	uint64_t ret;
	uint64_t at; // offset of the counter from a thread's `counts`; valid whenever it is read
};

// The data behind a counter, which belongs to one cell for ever. The first two words look like a
// cell that leads on to the cell's own entry trampoline, for code that follows the address in a
// slot.
struct sosc_counter {
	uint64_t none;
	uint64_t original;
	uint64_t cell;
	uint64_t thread; // the struct sosc_thread whose calls it counts
	struct sosc_counter_site site[SOSC_COUNTER_SITES];
	uint64_t reserved[8];
};

extern struct sosc_counter sosc_counterdata[SOSC_MAX_COUNTERS];
extern const uint8_t sosc_counters[];

void sosc_counters_start(void);
uint64_t sosc_counter_entry(uint32_t index);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_counter) == SOSC_COUNTER_SIZE, "layout.h");
_Static_assert(offsetof(struct sosc_counter, original) == CELL_ORIGINAL, "as a cell");
_Static_assert(offsetof(struct sosc_counter, cell) == COUNTER_CELL, "layout.h");
_Static_assert(offsetof(struct sosc_counter, thread) == COUNTER_THREAD, "layout.h");
_Static_assert(offsetof(struct sosc_counter, site[0].ret) == COUNTER_RETURN, "layout.h");
_Static_assert(offsetof(struct sosc_counter, site[0].at) == COUNTER_AT, "layout.h");
_Static_assert(sizeof(struct sosc_counter_site) == COUNTER_SECOND, "layout.h");

#endif
