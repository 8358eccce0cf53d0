// SPDX-License-Identifier: Apache-2.0
// Sampling of objects. Of all bytes that an interpreter makes objects of, one in so many is chosen
// by chance, and an object with a chosen byte is counted as if all objects were counted. How many
// objects it stands for depends on its size, which its origin tells. Each object is taken as one
// byte larger than it is, so that empty objects are chosen, too.
//
// Whenever a block is freed or used again, the agent has to find out whether its object is counted.
// Few objects are. So a small table of counters (the marks) answers for most blocks, and the side
// table is read only for the others.
//
// All of this happens with an interpreter's lock held. Several interpreters, each with its own
// lock, may subtract from `left` at the same time. Then some bytes are not subtracted. Marks are
// changed by atomic instructions, because a mark that is too low would hide the end of an object.

#include "objects/common/picks.h"
#include "base/sampling.h"
#include "base/sys.h"
#include "objects/common/objects.h"
#include "vm/origin.h"

enum {
	MANY = 255, // a mark that has reached this value keeps it
	DIGITS = 5, // significant bits of a large size
};

struct sosc_picks sosc_picks;

/** Draw the distance to the next chosen byte. */
void sosc_picks_draw(void)
{
	sosc_picks.left = (int64_t)sosc_chance_draw(&sosc_picks.seed, sosc_picks.scale);
}

/** Prepare for choosing objects. It begins when objects are counted. */
void sosc_picks_plan(uint64_t scale)
{
	sosc_picks_end();
	memset(sosc_picks.marks, MANY, sizeof(sosc_picks.marks));
	sosc_picks.is_wanted = true;
	sosc_picks.scale = scale;
}

/** Begin to choose objects. None is counted yet. */
void sosc_picks_begin(void)
{
	sosc_side_clear();
	memset(sosc_picks.marks, 0, sizeof(sosc_picks.marks));
	sosc_picks_forked();
	sosc_picks.is_on = true;
}

/**
 * Stop choosing objects. After this, every address is reported as one that may hold a counted
 * object.
 */
void sosc_picks_end(void)
{
	if (sosc_picks.is_on)
		memset(sosc_picks.marks, MANY, sizeof(sosc_picks.marks));
	sosc_picks.is_on = sosc_picks.is_wanted = false;
}

/** Let a forked child choose other objects than its parent. */
void sosc_picks_forked(void)
{
	sosc_picks.seed = sosc_chance_seed((uint64_t)sosc_sys3(SYS_GETPID, 0, 0, 0) << 32);
	sosc_picks.asked = 0;
	sosc_picks_draw();
}

/**
 * Return the size that is used for choosing a large object: up to a sixteenth less than @bytes, so
 * that there are few different sizes. Each size that a line makes has an origin of its own.
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

/** An object with a chosen byte has been made in @block. Does the same as sosc_object_made. */
void sosc_picks_made(uint64_t block, uint32_t shift, uint32_t origin)
{
	uint32_t *word = origin == ORIGIN_UNKNOWN ? NULL : sosc_side_make(block);

	if (word)
		sosc_picks_stays(block, word, SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | origin);
	else
		sosc_objects_tally.lost++; // without an origin its weight is unknown
}

/** The object in @block, whose word is @word, is not counted any more. */
void sosc_picks_gone(uint64_t block, uint32_t *word)
{
	unmark(block);
	unmark(object_in(block, *word));
	*word = 0;
}

/** The object is counted (again). Its word is @was. */
void sosc_picks_stays(uint64_t block, uint32_t *word, uint32_t was)
{
	*word = was;
	mark(block);
	mark(object_in(block, was));
}
