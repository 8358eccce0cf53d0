// SPDX-License-Identifier: Apache-2.0
/**
 * Parked calls: what a thread keeps of a call until it returns, found by where the return address
 * lies. Behind them the thread has room for one long read.
 */
#ifndef SOSC_PARK_H
#define SOSC_PARK_H

#include "agent.h"

#pragma GCC visibility push(hidden)

struct sosc_parked {
	uint64_t sp; // 0 = free
	uint64_t cell;
	uint64_t a;
	uint64_t b;
};

struct sosc_scratch {
	uint8_t bytes[171 * 24]; // 4096 in whole units
	uint32_t is_taken; // a signal handler finds it taken by who was interrupted
};

enum {
	SOSC_PARKED_ROOM = (PARKED_COUNT + PARKED_PROBES) * sizeof(struct sosc_parked),
	SOSC_PARKED_SIZE = SOSC_PARKED_ROOM + sizeof(struct sosc_scratch),
};

struct sosc_cell;
struct sosc_thread;

extern struct sosc_parked sosc_parked_fallback[PARKED_COUNT + PARKED_PROBES];

void sosc_parked_give(struct sosc_thread *thread);
struct sosc_parked *sosc_parked_find(struct sosc_thread *thread, uint64_t sp, uint64_t cell);
struct sosc_parked *sosc_parked_place(struct sosc_thread *thread, uint64_t sp,
				      const struct sosc_cell *cell, bool tail_called);
struct sosc_scratch *sosc_scratch_take(const struct sosc_thread *thread);
void sosc_scratch_give(struct sosc_scratch *scratch);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_parked) == 1 << PARKED_SHIFT, "layout.h");
_Static_assert(PARKED_END == PARKED_COUNT * sizeof(struct sosc_parked), "layout.h");

#endif
