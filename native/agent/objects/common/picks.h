// SPDX-License-Identifier: Apache-2.0
/**
 * Objects of which some are counted: those with a byte that is chosen by chance.
 */
#ifndef SOSC_PICKS_H
#define SOSC_PICKS_H

#include "objects/common/side.h"

#pragma GCC visibility push(hidden)

enum {
	PICKS_MARKS = 1 << 16,
	PICKS_NEAR = 8, // bits of addresses that have a mark in common
	PICKS_FEW = 512, // bytes: larger sizes differ by more
};

struct sosc_picks {
	bool is_on;
	bool is_wanted; // from when objects are counted
	int64_t left; // bytes until the next one that is chosen
	uint64_t asked; // bytes of a large block that nobody has said to be an object; 0: there is none
	uint64_t seed, scale; // see sampling.h
	// how many objects that are counted have such an address; 255: many, or nothing is chosen yet
	uint8_t marks[PICKS_MARKS];
};

extern struct sosc_picks sosc_picks;

static inline uint8_t *sosc_picks_mark(uint64_t addr)
{
	return &sosc_picks.marks[addr >> PICKS_NEAR & (PICKS_MARKS - 1)];
}

/** Whether an object that is counted, or its block, may be at @addr. */
static inline bool sosc_picks_may_be(uint64_t addr)
{
	return *sosc_picks_mark(addr);
}

void sosc_picks_plan(uint64_t scale);
void sosc_picks_begin(void);
void sosc_picks_end(void);
void sosc_picks_forked(void);
uint32_t sosc_picks_coarse(uint64_t bytes);
void sosc_picks_draw(void);
void sosc_picks_made(uint64_t block, uint32_t shift, uint32_t origin);
void sosc_picks_gone(uint64_t block, uint32_t *word);
void sosc_picks_stays(uint64_t block, uint32_t *word, uint32_t was);

/** Whether an object of such a size has a chosen byte; then the next one has to be drawn. */
static inline bool sosc_picks_hit(uint32_t size)
{
	sosc_picks.left -= (int64_t)size + 1;
	return __builtin_expect(sosc_picks.left <= 0, 0);
}

/** The same, and it is drawn. */
static inline bool sosc_picks_take(uint32_t size)
{
	if (!sosc_picks_hit(size))
		return false;
	sosc_picks_draw();
	return true;
}

#pragma GCC visibility pop

#endif
