// SPDX-License-Identifier: Apache-2.0
// stacks: each stack has one number as long as there is room. Of a table that is full the agent looks
// at a few places, and counts the stack as lost.
#include "host.h"

#include "stack/walk.h"
#include "soscope/stream.h"

#include <sys/mman.h>

enum {
	BITS = 12,
	SIZE = 8 << BITS, // of all buckets
	WORDS = 1 << 20,
	STACKS = 3 << BITS, // more than there are buckets
	FRAMES = 3,
};

static struct sosc_blocks *own;
static uint64_t *buckets;

static void *map(uint64_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static uint32_t number_of(uint64_t which)
{
	const uint64_t frames[FRAMES] = {which, which + 1, which + 2};

	return sosc_stack_of(frames, FRAMES, 0, which * 0x9e3779b97f4a7c15ull);
}

static void fill(void)
{
	static uint32_t numbers[STACKS];
	uint32_t lost = 0, used = 0;

	for (uint32_t i = 0; i < STACKS; i++) {
		numbers[i] = number_of(i + 1);
		lost += !numbers[i];
	}
	for (uint32_t i = 0; i < 1 << BITS; i++)
		used += buckets[i] != 0;
	CHECK(lost == own->stacks_lost && used == STACKS - lost);
	CHECK(used > (1 << BITS) / 2); // it is full before one is lost
	for (uint32_t i = 0; i < STACKS; i++)
		CHECK(number_of(i + 1) == numbers[i]);
}

// Whoever shares the table may write there what it likes: no word outside is read or written.
static void believe_nothing(void)
{
	const uint64_t frames[FRAMES] = {1, 2, 3}, hash = 0, upper = hash & ~(uint64_t)UINT32_MAX;
	const uint64_t used = own->words_used;
	const uint32_t numbers[] = {UINT32_MAX, WORDS, WORDS - 1, WORDS - FRAMES};
	uint64_t first = buckets[0];

	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		buckets[0] = upper | numbers[i];
		(void)sosc_stack_of(frames, FRAMES, 0, hash);
		CHECK(!sosc_stack_code_at(numbers[i]));
	}
	buckets[0] = 0;
	for (uint64_t i = 0; i < 8; i++) {
		own->words_used = UINT64_MAX - i;
		CHECK(!sosc_stack_of(frames, FRAMES, 0, hash));
	}
	own->words_used = used;
	own->words = UINT64_MAX; // the plan says how many there are
	own->words_used = WORDS;
	CHECK(!sosc_stack_of(frames, FRAMES, 0, hash));
	own->words_used = used;
	buckets[0] = first;
}

// Stacks whose places are all taken: what lies far behind those is not looked at.
static void look_no_further(void)
{
	const uint64_t lost = own->stacks_lost, frames[FRAMES] = {7, 8, 9};

	for (uint32_t i = 0; i < SOSC_PAGE / 8; i++)
		buckets[i] = UINT64_MAX;
	CHECK(!mprotect((uint8_t *)buckets + SOSC_PAGE, SIZE - SOSC_PAGE, PROT_NONE));
	CHECK(!sosc_stack_of(frames, FRAMES, 0, 0));
	CHECK(own->stacks_lost == lost + 1);
}

int main(void)
{
	const struct sosc_blocks begins = {.bits = BITS, .words = WORDS, .words_used = 1};
	struct sosc_blocks *said, *at;

	host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	host_own(&begins, sizeof(begins));
	own = sosc_own(SOSC_INSTRUMENT_BLOCKS, sizeof(*own));
	CHECK(own);
	buckets = map(SIZE);
	said = (void *)((uint8_t *)host_plan + host_plan->plan[0].given.offset);
	said->first_bucket = (uint64_t)buckets - (uint64_t)own;
	said->first_word = (uint64_t)map(8ull * WORDS) - (uint64_t)own;
	CHECK(sosc_stacks_start(SOSC_INSTRUMENT_BLOCKS, &at) == said && at == own);
	fill();
	believe_nothing();
	look_no_further();
	return 0;
}
