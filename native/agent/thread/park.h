// SPDX-License-Identifier: Apache-2.0
/**
 * Parked calls: what a thread keeps of a call until it returns, indexed by the address at which the
 * return address lies. Behind the table is what the thread keeps of calls of scanf, and a buffer
 * for one long read.
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
	uint8_t bytes[171 * 24]; // 4096 bytes, rounded up to whole units
	uint32_t is_taken; // 1: in use, possibly by code that a signal handler has interrupted
};

enum {
	SOSC_FILLS_MAX = 24, // of one call
	SOSC_FILLINGS = 8, // calls of one thread: more than one only if signal handlers interrupt
};

enum sosc_fill_kind {
	SOSC_FILL_NUMBER, // a number of `size` bytes
	SOSC_FILL_READ, // the same, stored by %n: how many characters were read
	SOSC_FILL_CHARACTERS, // `size` bytes of characters without a NUL
	SOSC_FILL_WIDE_CHARACTERS, // the same, with characters of 4 bytes
	SOSC_FILL_STRING,
	SOSC_FILL_WIDE, // a string of characters of 4 bytes
};

// What one conversion of scanf stores, and where.
struct sosc_fill {
	uint64_t to; // addr, 0 = unknown
	uint32_t size;
	uint32_t before; // previous contents of the place that shows whether everything was stored
	uint8_t kind; // enum sosc_fill_kind
	uint8_t item; // argument number
	uint8_t counted; // number of conversions up to this one that count in scanf's result
	uint8_t is_behind; // READ: it is reached if the conversion before it is
	uint8_t is_allocated; // `to` holds the address of the text, which scanf allocates
	uint8_t reserved[3];
};

struct sosc_filling { // a call of scanf that has not returned
	uint64_t sp; // 0 = free
	uint64_t cell;
	uint32_t number; // increases with each filling
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
