// SPDX-License-Identifier: Apache-2.0
// Each byte that an interpreter makes objects of is chosen by chance, one in so many, and an object
// with a chosen byte is counted as each one would be. What it stands for hangs on its size, which
// its origin says. One byte is added to each object.
//
// Whether an object is counted is asked whenever a block is freed or used again. Few are: so a small
// table of numbers answers for most blocks, and the side table only for the others.
//
// All of it happens with an interpreter's lock held. Several interpreters with a lock each may take
// a byte from the count at once: then one is not counted down.

#include "picks.h"
#include "chance.h"
#include "objects.h"
#include "origin.h"
#include "sys.h"

enum {
	MANY = 255, // stays what it is
	GRAIN = 16, // bytes: sizes differ by no less
	DIGITS = 5, // bits of a larger size that count
};

struct sosc_picks sosc_picks;

static uint8_t *mark_of(uint64_t block)
{
	return &sosc_picks.marks[(block >> 4 ^ block >> 18) & (PICKS_MARKS - 1)];
}

static void draw(void)
{
	sosc_picks.left = (int64_t)sosc_chance_draw(&sosc_picks.seed, sosc_picks.scale);
}

/** Objects are to be chosen, from when they are counted. */
void sosc_picks_plan(uint64_t scale)
{
	sosc_picks.is_on = false;
	sosc_picks.is_wanted = true;
	sosc_picks.scale = scale;
}

/** From now on they are; none is counted yet. */
void sosc_picks_begin(void)
{
	sosc_side_clear();
	memset(sosc_picks.marks, 0, sizeof(sosc_picks.marks));
	sosc_picks_forked();
	sosc_picks.is_on = true;
}

/** A child chooses others than its parent. */
void sosc_picks_forked(void)
{
	sosc_picks.seed = sosc_chance_seed((uint64_t)sosc_sys3(SYS_GETPID, 0, 0, 0) << 32);
	sosc_picks.asked = 0;
	draw();
}

/**
 * The size by which an object of so many bytes is chosen: there are few of them, as each one that
 * a line makes is an origin.
 */
uint32_t sosc_picks_size(uint64_t bytes)
{
	uint32_t shift;

	bytes = (bytes + GRAIN - 1) & ~(uint64_t)(GRAIN - 1);
	if (bytes >= 1ull << 31)
		return 1u << 31;
	if (bytes < GRAIN << DIGITS)
		return (uint32_t)bytes;
	shift = 64 - DIGITS - (uint32_t)__builtin_clzll(bytes);
	return (uint32_t)(bytes >> shift << shift);
}

/** Whether an object of such a size has a chosen byte, that is not chosen any more. */
bool sosc_picks_take(uint32_t size)
{
	sosc_picks.left -= (int64_t)size + 1;
	if (sosc_picks.left > 0)
		return false;
	draw();
	return true;
}

/** The object in @block is counted. */
void sosc_picks_mark(uint64_t block)
{
	uint8_t *mark = mark_of(block);

	*mark += *mark != MANY;
}

/** It is not any more. */
void sosc_picks_unmark(uint64_t block)
{
	uint8_t *mark = mark_of(block);

	*mark -= *mark && *mark != MANY;
}

/** An object with a chosen byte has been made in @block; as sosc_object_made. */
void sosc_picks_made(uint64_t block, uint32_t shift, uint32_t origin)
{
	uint32_t *word = origin == ORIGIN_UNKNOWN ? NULL : sosc_side_make(block);

	if (!word) { // nobody could say what it stands for
		sosc_objects_tally.lost++;
		return;
	}
	*word = SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | origin;
	sosc_picks_mark(block);
}
