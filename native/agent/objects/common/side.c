// SPDX-License-Identifier: Apache-2.0
// The side table grows with the addresses that are used, until the agent rests. A forked child has
// a copy.

#include "objects/common/side.h"
#include "base/memory.h"

uint32_t **sosc_side[SOSC_SIDE_TOPS];
struct sosc_side_near sosc_side_near;

/**
 * Prepare the table before the first object is announced: nothing lies at address 0, so no entry
 * may match it.
 */
void sosc_side_begin(void)
{
	if (!sosc_side_near.mib[0])
		sosc_side_near.mib[0] = UINT64_MAX;
}

// The first MiB that uses an entry keeps it.
static void keep_near(uint64_t mib, const uint32_t *words)
{
	uint64_t at = mib & (SIDE_NEAR - 1), nobody = 0;

	if (!__atomic_compare_exchange_n(&sosc_side_near.mib[at], &nobody, UINT64_MAX, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	sosc_side_near.words[at] = (uint64_t)words - mib * SOSC_SIDE_WORDS * sizeof(*words);
	__atomic_store_n(&sosc_side_near.mib[at], mib, __ATOMIC_RELEASE);
}

/** Does the same as sosc_side_at, but always searches. */
uint32_t *sosc_side_find(uint64_t addr)
{
	uint64_t top = addr >> 34;
	uint32_t **leaves = top < SOSC_SIDE_TOPS ? sosc_side[top] : NULL;
	uint32_t *words = leaves ? leaves[addr >> 20 & (SOSC_SIDE_LEAVES - 1)] : NULL;

	if (!words)
		return NULL;
	keep_near(addr >> SIDE_MIB, words);
	return &words[addr >> 4 & (SOSC_SIDE_WORDS - 1)];
}

// If another thread has been faster, its memory is used.
static void *map_into(void **place, uint64_t size)
{
	void *mine = sosc_memory_map(size), *theirs = NULL;

	if (!mine)
		return __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (__atomic_compare_exchange_n(place, &theirs, mine, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return mine;
	sosc_memory_unmap(mine, size);
	return theirs;
}

/** Return the word of the block at @addr, or NULL if there is no memory for it. */
uint32_t *sosc_side_make(uint64_t addr)
{
	uint64_t top = addr >> 34;
	uint32_t **leaves, *words;

	if (top >= SOSC_SIDE_TOPS)
		return NULL;
	leaves = sosc_side[top];
	if (!leaves)
		leaves = map_into((void **)&sosc_side[top], sizeof(*leaves) * SOSC_SIDE_LEAVES);
	if (!leaves)
		return NULL;
	words = leaves[addr >> 20 & (SOSC_SIDE_LEAVES - 1)];
	if (!words)
		words = map_into((void **)&leaves[addr >> 20 & (SOSC_SIDE_LEAVES - 1)],
				 sizeof(*words) * SOSC_SIDE_WORDS);
	return words ? &words[addr >> 4 & (SOSC_SIDE_WORDS - 1)] : NULL;
}

/** Call @visit for each block that holds an object. No object may be announced meanwhile. */
void sosc_side_each(sosc_side_visit *visit, void *data)
{
	for (uint32_t top = 0; top < SOSC_SIDE_TOPS; top++)
		for (uint32_t leaf = 0; sosc_side[top] && leaf < SOSC_SIDE_LEAVES; leaf++) {
			uint64_t start = (uint64_t)top << 34 | (uint64_t)leaf << 20;
			uint32_t *words = sosc_side[top][leaf];

			for (uint32_t i = 0; words && i < SOSC_SIDE_WORDS; i++)
				if (words[i])
					visit(start | (uint64_t)i << 4, &words[i], data);
		}
}

static void clear(uint64_t block, uint32_t *word, void *data)
{
	(void)block;
	(void)data;
	*word = 0;
}

/** Forget all objects. No object may be announced meanwhile. */
void sosc_side_clear(void)
{
	sosc_side_each(clear, NULL);
}

static void change_word(uint64_t block, uint32_t *word, void *data)
{
	uint32_t (**change)(uint32_t word) = data;

	(void)block;
	*word = (*change)(*word);
}

/**
 * Replace the word of each object by the result of @change. No object may be announced meanwhile.
 */
void sosc_side_change(uint32_t (*change)(uint32_t word))
{
	sosc_side_each(change_word, &change);
}

/** The agent rests: unmap the whole table. No thread uses it. */
void sosc_side_rest(void)
{
	for (uint32_t top = 0; top < SOSC_SIDE_TOPS; top++) {
		uint32_t **leaves = sosc_side[top];

		for (uint32_t leaf = 0; leaves && leaf < SOSC_SIDE_LEAVES; leaf++)
			sosc_memory_unmap(leaves[leaf], sizeof(**leaves) * SOSC_SIDE_WORDS);
		sosc_memory_unmap(leaves, sizeof(*leaves) * SOSC_SIDE_LEAVES);
	}
	sosc_memory_clear(sosc_side, sizeof(sosc_side));
	sosc_memory_clear(&sosc_side_near, sizeof(sosc_side_near));
}
