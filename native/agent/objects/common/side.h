// SPDX-License-Identifier: Apache-2.0
/**
 * The side table: a word for each 16 bytes of the address space, which says whether an object's
 * block begins there, and its origin.
 */
#ifndef SOSC_SIDE_H
#define SOSC_SIDE_H

#include "base/agent.h"
#include "soscope/objects.h"

#pragma GCC visibility push(hidden)

enum {
	SIDE_MIB = 20, // bits of an address within what a table of words is about
	SIDE_NEAR = 1 << 16,
};

/**
 * A table of words that is found at once: the first that was asked for of those with the same last 16
 * bits of a number. It stays so, and may be read while others are written.
 */
struct sosc_side_near { // arrays, as the processor can scale an index by 8
	uint64_t mib[SIDE_NEAR]; // the number of what it is about; 0: none
	uint64_t words[SIDE_NEAR]; // addr that it had if it were about the whole address space
};

extern struct sosc_side_near sosc_side_near;
extern uint32_t **sosc_side[SOSC_SIDE_TOPS];

void sosc_side_begin(void);
uint32_t *sosc_side_find(uint64_t addr);

/** Whether the table of the block at @addr is found at once; then @ret is the block's word. */
static inline bool sosc_side_is_near(uint64_t addr, uint32_t **ret)
{
	uint64_t mib = addr >> SIDE_MIB, at = mib & (SIDE_NEAR - 1);

	if (__builtin_expect(sosc_side_near.mib[at] != mib, 0))
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE); // a load of its own could not be compared in place
	*ret = (uint32_t *)(sosc_side_near.words[at] + (addr >> 4) * sizeof(**ret));
	return true;
}

/** The word of the block at @addr, NULL: no object was ever near it. */
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
