// SPDX-License-Identifier: Apache-2.0
/**
 * The side table: one word for each 16 bytes of the address space. The word tells whether an
 * object's block begins there, and the object's origin.
 */
#ifndef SOSC_SIDE_H
#define SOSC_SIDE_H

#include "base/agent.h"
#include "soscope/objects.h"

#pragma GCC visibility push(hidden)

enum {
	SIDE_MIB = 20, // bits of an address inside the MiB that one table of words covers
	SIDE_NEAR = 1 << 16,
};

/**
 * Tables of words that are found without a search. Of all MiB whose numbers have the same last 16
 * bits, the first that was looked up gets the entry, and keeps it. An entry may be read while
 * others are written.
 */
struct sosc_side_near { // two arrays, since the processor can scale an index by 8
	uint64_t mib[SIDE_NEAR]; // number of the MiB that the table covers, 0 if there is none
	// address at which the table would begin if it covered the whole address space
	uint64_t words[SIDE_NEAR];
};

extern struct sosc_side_near sosc_side_near;
extern uint32_t **sosc_side[SOSC_SIDE_TOPS];

void sosc_side_begin(void);
uint32_t *sosc_side_find(uint64_t addr);

/**
 * Return whether the table of the block at @addr is found without a search. Then *@ret is the
 * block's word.
 */
static inline bool sosc_side_is_near(uint64_t addr, uint32_t **ret)
{
	uint64_t mib = addr >> SIDE_MIB, at = mib & (SIDE_NEAR - 1);

	if (__builtin_expect(sosc_side_near.mib[at] != mib, 0))
		return false;
	// with an acquire load the compiler could not compare in memory
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	*ret = (uint32_t *)(sosc_side_near.words[at] + (addr >> 4) * sizeof(**ret));
	return true;
}

/** Return the word of the block at @addr, or NULL if there was never an object near it. */
static inline uint32_t *sosc_side_at(uint64_t addr)
{
	uint32_t *word;

	return sosc_side_is_near(addr, &word) ? word : sosc_side_find(addr);
}

typedef void sosc_side_visit(uint64_t block, uint32_t *word, void *data);

uint32_t *sosc_side_make(uint64_t addr);
void sosc_side_each(sosc_side_visit *visit, void *data);
void sosc_side_clear(void);
void sosc_side_rest(void);
void sosc_side_change(uint32_t (*change)(uint32_t word));

#pragma GCC visibility pop

#endif
