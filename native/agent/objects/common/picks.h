// SPDX-License-Identifier: Apache-2.0
/** Sampling of objects: those with a byte that was chosen by chance are counted. */
#ifndef SOSC_PICKS_H
#define SOSC_PICKS_H

#include "objects/common/side.h"

#pragma GCC visibility push(hidden)

enum {
	PICKS_MARKS = 1 << 16,
	PICKS_NEAR = 8, // bits: all addresses that differ only in these share a mark
	PICKS_FEW = 512, // bytes: sizes of up to so many bytes are kept exactly
};

struct sosc_picks {
	bool is_on;
	bool is_wanted; // to be switched on when objects are counted
	int64_t left; // bytes until the next chosen byte
	// bytes of a large block that has not yet been announced as an object, 0 if there is none
	uint64_t asked;
	uint64_t seed, scale; // see sampling.h
	// number of counted objects at these addresses, 255: many, or no object is chosen yet
	uint8_t marks[PICKS_MARKS];
};

extern struct sosc_picks sosc_picks;

static inline uint8_t *sosc_picks_mark(uint64_t addr)
{
	return &sosc_picks.marks[addr >> PICKS_NEAR & (PICKS_MARKS - 1)];
}

/** Return whether a counted object, or its block, may be at @addr. */
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

/**
 * Return whether an object of this size has a chosen byte. If so, the caller has to draw the next
 * one.
 */
static inline bool sosc_picks_hit(uint32_t size)
{
	sosc_picks.left -= (int64_t)size + 1;
	return __builtin_expect(sosc_picks.left <= 0, 0);
}

/** The same, but also draws the next chosen byte. */
static inline bool sosc_picks_take(uint32_t size)
{
	if (!sosc_picks_hit(size))
		return false;
	sosc_picks_draw();
	return true;
}

#pragma GCC visibility pop

#endif
