// SPDX-License-Identifier: Apache-2.0
/**
 * The side table: a word for each 16 bytes of the address space, which says whether an object's
 * block begins there, and its origin.
 */
#ifndef SOSC_SIDE_H
#define SOSC_SIDE_H

#include "agent.h"
#include "soscope/objects.h"

#pragma GCC visibility push(hidden)

enum {
	SIDE_BYTES = 4 * SOSC_SIDE_WORDS, // of a table of words, which has an address of so many
	SIDE_RECENT = 2048, // tables that were asked for not long ago; a power of two
	SIDE_MIB = 20, // bits of an address within what a table is about,
	SIDE_TAG = 31, // and those below what an entry of sosc_side_recent tells in 16 bits
};

/** The end of a table, less the tag of what it is about and 1; 0: there is no entry. */
extern uint64_t sosc_side_recent[SIDE_RECENT];
extern uint32_t **sosc_side[SOSC_SIDE_TOPS];

uint32_t *sosc_side_find(uint64_t addr);

/**
 * Whether the table of the block at @addr was asked for not long ago; then @ret is the block's word.
 * Addresses have 47 bits: what the kernel gives to nobody who does not ask for more.
 */
static inline bool sosc_side_look_back(uint64_t addr, uint32_t **ret)
{
	uint64_t end = sosc_side_recent[addr >> SIDE_MIB & (SIDE_RECENT - 1)];

	end += (uint16_t)(addr >> SIDE_TAG) + 1ull;
	*ret = (uint32_t *)(end - SIDE_BYTES) + (addr >> 4 & (SOSC_SIDE_WORDS - 1));
	return __builtin_expect(!(end & (SIDE_BYTES - 1)), 1);
}

/** The word of the block at @addr, NULL: no object was ever near it. */
static inline uint32_t *sosc_side_at(uint64_t addr)
{
	uint32_t *word;

	return sosc_side_look_back(addr, &word) ? word : sosc_side_find(addr);
}

typedef void sosc_side_visit(uint64_t block, uint32_t *word, void *data);

uint32_t *sosc_side_make(uint64_t addr);
void sosc_side_each(sosc_side_visit *visit, void *data);
void sosc_side_clear(void);
void sosc_side_change(uint32_t (*change)(uint32_t word));

#pragma GCC visibility pop

#endif
