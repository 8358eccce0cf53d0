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
	SIDE_RECENT = 64, // tables of words that were asked for not long ago; a power of two
	SIDE_TAG_HIGH = 47, // bits of an entry: above an address of the program's, and in its page
	SIDE_TAG_LOW = 17,
};

extern uint32_t **sosc_side[SOSC_SIDE_TOPS];
extern uint64_t sosc_side_recent[SIDE_RECENT]; // address of a table, and tag of what it is about

uint32_t *sosc_side_find(uint64_t addr);

/** What an entry of sosc_side_recent has beside an address, for the MiB of @addr. */
static inline uint64_t sosc_side_tag(uint64_t addr)
{
	uint64_t tag = addr >> 26; // the lower bits of the MiB's number are the entry's place

	return tag << SIDE_TAG_HIGH | (tag >> SIDE_TAG_LOW & 0xfff) | 0x800;
}

/** The word of the block at @addr, NULL: no object was ever near it. */
static inline uint32_t *sosc_side_at(uint64_t addr)
{
	uint64_t entry = sosc_side_recent[addr >> 20 & (SIDE_RECENT - 1)];
	uint64_t mask = ~0ull << SIDE_TAG_HIGH | 0xfff;
	uint32_t *words = (uint32_t *)(entry & ~mask);

	if ((entry & mask) != sosc_side_tag(addr))
		return sosc_side_find(addr);
	return &words[addr >> 4 & (SOSC_SIDE_WORDS - 1)];
}

typedef void sosc_side_visit(uint64_t block, uint32_t *word, void *data);

uint32_t *sosc_side_make(uint64_t addr);
void sosc_side_each(sosc_side_visit *visit, void *data);
void sosc_side_clear(void);
void sosc_side_change(uint32_t (*change)(uint32_t word));

#pragma GCC visibility pop

#endif
