// SPDX-License-Identifier: Apache-2.0
// Each byte that an interpreter makes objects of is chosen by chance, one in so many, and an object
// with a chosen byte is counted as each one would be. What it stands for hangs on its size, which
// its origin says. One byte is added to each object.
//
// Whether an object is counted is asked whenever a block is freed or used again. Few are: so a small
// table of numbers answers for most blocks, and the side table only for the others.
//
// All of it happens with an interpreter's lock held. Several interpreters with a lock each may take
// bytes from `left` at once: then some are not counted down. Marks are changed by atomic instructions: a
// mark that is too low would hide the end of an object.

#include "objects/common/picks.h"
#include "base/sampling.h"
#include "base/sys.h"
#include "objects/common/objects.h"
#include "vm/origin.h"

enum {
	MANY = 255, // stays what it is
	DIGITS = 5, // bits of a large size that count
};

struct sosc_picks sosc_picks;

/** The next byte that is chosen. */
void sosc_picks_draw(void)
{
	sosc_picks.left = (int64_t)sosc_chance_draw(&sosc_picks.seed, sosc_picks.scale);
}

/** Objects are to be chosen, from when they are counted. */
void sosc_picks_plan(uint64_t scale)
{
	sosc_picks_end();
	memset(sosc_picks.marks, MANY, sizeof(sosc_picks.marks));
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

/** No object is chosen any more. Each is told of as where one may be that is counted. */
void sosc_picks_end(void)
{
	if (sosc_picks.is_on)
		memset(sosc_picks.marks, MANY, sizeof(sosc_picks.marks));
	sosc_picks.is_on = sosc_picks.is_wanted = false;
}

/** A child chooses others than its parent. */
void sosc_picks_forked(void)
{
	sosc_picks.seed = sosc_chance_seed((uint64_t)sosc_sys3(SYS_GETPID, 0, 0, 0) << 32);
	sosc_picks.asked = 0;
	sosc_picks_draw();
}

/**
 * The size by which a large object is chosen: a sixteenth may be left out, so that there are few. Those
 * that a line makes have an origin each.
 */
uint32_t sosc_picks_coarse(uint64_t bytes)
{
	uint32_t shift = 64 - DIGITS - (uint32_t)__builtin_clzll(bytes);

	return bytes >= 1ull << 31 ? 1u << 31 : (uint32_t)(bytes >> shift << shift);
}

// ---- marks -------------------------------------------------------------------

static void mark(uint64_t addr)
{
	uint8_t *count = sosc_picks_mark(addr), was = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (was != MANY && !__atomic_compare_exchange_n(count, &was, (uint8_t)(was + 1), false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

static void unmark(uint64_t addr)
{
	uint8_t *count = sosc_picks_mark(addr), was = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (was && was != MANY &&
	       !__atomic_compare_exchange_n(count, &was, (uint8_t)(was - 1), false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

static uint64_t object_in(uint64_t block, uint32_t word)
{
	static const uint8_t behind[] = {0, 16, 32, 8};

	return block + behind[word >> SOSC_SIDE_SHIFT & 3];
}

/** An object with a chosen byte has been made in @block; as sosc_object_made. */
void sosc_picks_made(uint64_t block, uint32_t shift, uint32_t origin)
{
	uint32_t *word = origin == ORIGIN_UNKNOWN ? NULL : sosc_side_make(block);

	if (word)
		sosc_picks_stays(block, word, SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | origin);
	else
		sosc_objects_tally.lost++; // nobody could say what it stands for
}

/** The object in @block, whose word is @word, is not counted any more. */
void sosc_picks_gone(uint64_t block, uint32_t *word)
{
	unmark(block);
	unmark(object_in(block, *word));
	*word = 0;
}

/** It is counted, again: its word is @was. */
void sosc_picks_stays(uint64_t block, uint32_t *word, uint32_t was)
{
	*word = was;
	mark(block);
	mark(object_in(block, was));
}
