// SPDX-License-Identifier: Apache-2.0
/**
 * Objects of which some are counted: those with a byte that is chosen by chance.
 */
#ifndef SOSC_PICKS_H
#define SOSC_PICKS_H

#include "side.h"

#pragma GCC visibility push(hidden)

enum { PICKS_MARKS = 1 << 14 };

struct sosc_picks {
	bool is_on;
	bool is_wanted; // from when objects are counted
	int64_t left; // bytes until the next one that is chosen
	uint64_t seed, scale; // see chance.h
	uint64_t asked; // bytes of a block that nobody has said to be an object; 0: there is none
	uint8_t marks[PICKS_MARKS]; // how many objects with such a block are counted; 255: many
};

extern struct sosc_picks sosc_picks;

/** Whether the block at @addr may be that of an object that is counted. */
static inline bool sosc_picks_may_be(uint64_t addr)
{
	return sosc_picks.marks[(addr >> 4 ^ addr >> 18) & (PICKS_MARKS - 1)];
}

void sosc_picks_plan(uint64_t scale);
void sosc_picks_begin(void);
void sosc_picks_forked(void);
uint32_t sosc_picks_size(uint64_t bytes);
bool sosc_picks_take(uint32_t size);
void sosc_picks_made(uint64_t block, uint32_t shift, uint32_t origin);
void sosc_picks_mark(uint64_t block);
void sosc_picks_unmark(uint64_t block);

#pragma GCC visibility pop

#endif
