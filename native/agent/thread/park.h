// SPDX-License-Identifier: Apache-2.0
/**
 * Parked calls: what a thread keeps of a call until it returns, found by where the return address
 * lies. Behind them is what it keeps of calls of scanf, and room for one long read.
 */
#ifndef SOSC_PARK_H
#define SOSC_PARK_H

#include "base/agent.h"

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
	SOSC_FILLS_MAX = 24, // of one call
	SOSC_FILLINGS = 8, // calls of one thread: a second one is a signal handler's
};

enum sosc_fill_kind {
	SOSC_FILL_NUMBER, // in `size` bytes
	SOSC_FILL_READ, // the same, of %n: how many characters were read
	SOSC_FILL_CHARACTERS, // in `size` bytes, without an end
	SOSC_FILL_WIDE_CHARACTERS, // the same, of 4 bytes each
	SOSC_FILL_STRING,
	SOSC_FILL_WIDE, // a string of characters of 4 bytes
};

// What one conversion of scanf stores, and where.
struct sosc_fill {
	uint64_t to; // addr, 0 = not known
	uint32_t size;
	uint32_t before; // what stood where it may be seen whether all of it is stored
	uint8_t kind; // enum sosc_fill_kind
	uint8_t item; // number of the argument
	uint8_t counted; // how many conversions that the result counts there are up to this one
	uint8_t is_behind; // of READ: it is reached if the one in front of it is
	uint8_t is_allocated; // at `to` is the address of it
	uint8_t reserved[3];
};

struct sosc_filling { // a call of scanf that has not returned
	uint64_t sp; // 0 = free
	uint64_t cell;
	uint32_t number; // tells it from those before it
	uint32_t count;
	struct sosc_fill fills[SOSC_FILLS_MAX];
};

enum {
	SOSC_PARKED_ROOM = (PARKED_COUNT + PARKED_PROBES) * sizeof(struct sosc_parked),
	SOSC_FILLINGS_ROOM = SOSC_FILLINGS * sizeof(struct sosc_filling),
	SOSC_PARKED_SIZE = SOSC_PARKED_ROOM + SOSC_FILLINGS_ROOM + sizeof(struct sosc_scratch),
};

struct sosc_cell;
struct sosc_thread;

extern struct sosc_parked sosc_parked_fallback[PARKED_COUNT + PARKED_PROBES];

void sosc_parked_give(struct sosc_thread *thread);
void sosc_parked_take(struct sosc_thread *thread);
struct sosc_parked *sosc_parked_find(struct sosc_thread *thread, uint64_t sp, uint64_t cell);
struct sosc_parked *sosc_parked_place(struct sosc_thread *thread, uint64_t sp,
				      const struct sosc_cell *cell, bool tail_called);
struct sosc_filling *sosc_filling_find(const struct sosc_thread *thread, uint64_t sp,
				       uint64_t cell);
struct sosc_filling *sosc_filling_place(const struct sosc_thread *thread, uint64_t sp,
					uint64_t cell);
struct sosc_scratch *sosc_scratch_take(const struct sosc_thread *thread);
void sosc_scratch_give(struct sosc_scratch *scratch);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_parked) == 1 << PARKED_SHIFT, "layout.h");
_Static_assert(PARKED_END == PARKED_COUNT * sizeof(struct sosc_parked), "layout.h");

#endif
