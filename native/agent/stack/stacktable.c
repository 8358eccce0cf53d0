// SPDX-License-Identifier: Apache-2.0
// Call stacks, each stored once, in memory that all processes of the control block share.
//
// A stack is written before a bucket refers to it, and never changes. So whoever finds it can read
// it without a lock: in a signal handler, and from outside even if its writer has been killed. If
// two threads write the same stack at the same time, the room of one is wasted.

#include "image/image.h"
#include "stack/chain.h"
#include "stack/unwindrules.h"
#include "stack/walk.h"
#include "soscope/objects.h"

enum {
	PROBES = 64
}; // buckets to search for a stack, so that a nearly full table is not searched for long

static struct sosc_blocks nowhere, *table = NULL;
static const struct sosc_blocks *given; // soscope's part of the plan
static uint64_t *buckets, *words;
static uint32_t shift; // shifts a hash to the number of its bucket
static uint64_t mask, room;
bool sosc_stacks_kept;

/** An image was loaded that may contain an interpreter. */
void sosc_stacks_look(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; i < SOSC_LANGUAGE_KINDS; i++)
		sosc_languages[i].see(image);
}

/** This is a forked child. */
void sosc_stacks_forked(void)
{
	sosc_rules_forked();
	sosc_chains_forked();
	for (uint32_t i = 0; i < SOSC_LANGUAGE_KINDS; i++)
		sosc_languages[i].forked();
}

/** An image was unloaded. */
void sosc_stacks_forget(const struct sosc_loaded *image)
{
	for (uint32_t i = 0; i < SOSC_LANGUAGE_KINDS; i++)
		sosc_languages[i].forget(image);
}

/**
 * Return how many return addresses a stack has at most, and also how many frames of an interpreter.
 */
uint32_t sosc_stacks_most(void)
{
	uint32_t frames = given ? given->frames : 0;

	return frames && frames < SOSC_BLOCK_FRAMES ? frames : SOSC_BLOCK_FRAMES;
}

/**
 * A session begins, and the instrument keeps stacks. Return what soscope has given for them, and in
 * @own the memory for them.
 */
const struct sosc_blocks *sosc_stacks_start(enum sosc_instrument_kind kind,
					    struct sosc_blocks **own)
{
	*own = sosc_own(kind, sizeof(**own));
	room = 0;
	table = *own ? *own : &nowhere;
	*own = table;
	given = sosc_given(kind, sizeof(*given));
	if (!given || table == &nowhere)
		given = &nowhere;
	sosc_stacks_kept = given->bits;
	for (uint32_t i = 0; i < SOSC_LANGUAGE_KINDS; i++)
		sosc_languages[i].start(given, table);
	if (!sosc_stacks_kept)
		return given;
	buckets = (uint64_t *)((uint8_t *)table + given->first_bucket);
	words = (uint64_t *)((uint8_t *)table + given->first_word);
	shift = 64 - given->bits;
	mask = (1ull << given->bits) - 1;
	room = given->words;
	sosc_rules_forget(); // also forgets kept walks: the numbers of stacks are different now
	return given;
}

static bool is_at(uint32_t number, const uint64_t *frames, uint32_t count, uint64_t head)
{
	const uint64_t *at = words + number;

	if (number >= room || count >= room - number || at[0] != head)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (at[1 + i] != frames[i])
			return false;
	return true;
}

// Returns room for a head and @count words, or 0 if there is none.
static uint64_t take(uint64_t count)
{
	uint64_t at = __atomic_fetch_add(&table->words_used, count + 1, __ATOMIC_RELAXED);

	if (at < room && count < room - at)
		return at;
	__atomic_fetch_sub(&table->words_used, count + 1, __ATOMIC_RELAXED);
	return 0;
}

static uint32_t write(const uint64_t *frames, uint32_t count, uint64_t head)
{
	uint64_t at = take(count);

	if (!at)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		words[at + 1 + i] = frames[i];
	__atomic_store_n(&words[at], head, __ATOMIC_RELEASE);
	return (uint32_t)at;
}

/**
 * Store a copy of @code, to which frames of Python 3.@minor, or of Ruby (SOSC_CODE_RUBY), refer by
 * the returned number. Return 0 if there is no room. This does not search for an earlier copy.
 */
uint32_t sosc_stack_code(const struct sosc_code *code, uint32_t minor)
{
	uint64_t size = sizeof(*code) + code->file_size + code->name_size + code->lines_size;
	uint64_t count = (size + 7) / 8, at = room ? take(count) : 0;

	if (!at)
		return 0;
	memcpy(&words[at + 1], code, size);
	__atomic_store_n(&words[at],
			 count << SOSC_STACK_SIZE | 1ull << SOSC_STACK_CODE |
				 (uint64_t)minor << SOSC_STACK_API,
			 __ATOMIC_RELEASE);
	return (uint32_t)at;
}

/** Return the copy with this number, or NULL. */
const struct sosc_code *sosc_stack_code_at(uint32_t number)
{
	const struct sosc_code *code;
	uint64_t size = sizeof(*code), left = number && number < room ? room - number - 1 : 0;

	if (size / 8 > left ||
	    !(__atomic_load_n(&words[number], __ATOMIC_ACQUIRE) >> SOSC_STACK_CODE & 1))
		return NULL;
	code = (const void *)&words[number + 1];
	size += (uint64_t)code->file_size + code->name_size + code->lines_size;
	return (size + 7) / 8 <= left ? code : NULL;
}

/**
 * Return the number of a stack of @count return addresses, the innermost first. @head lacks their
 * count. Return 0 if there is no room for another stack, and count that.
 */
uint32_t sosc_stack_of(const uint64_t *frames, uint32_t count, uint64_t head, uint64_t hash)
{
	uint64_t upper = hash & ~(uint64_t)UINT32_MAX, first = hash >> shift;
	uint32_t mine = 0;

	if (!room)
		return 0;
	head |= count;
	for (uint64_t i = 0; i < PROBES && i <= mask; i++) {
		uint64_t *bucket = &buckets[(first + i) & mask];
		uint64_t seen = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);

		if (!seen) {
			if (!mine)
				mine = write(frames, count, head);
			if (!mine)
				break;
			if (__atomic_compare_exchange_n(bucket, &seen, upper | mine, false,
							__ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
				return mine;
		}
		if ((seen & ~(uint64_t)UINT32_MAX) == upper &&
		    is_at((uint32_t)seen, frames, count, head))
			return (uint32_t)seen;
	}
	if (mine)
		return mine; // no bucket is free: the stack is written again the next time
	__atomic_fetch_add(&table->stacks_lost, 1, __ATOMIC_RELAXED);
	return 0;
}
