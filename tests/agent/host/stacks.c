// SPDX-License-Identifier: Apache-2.0
// stacks: each stack has one number as long as there is room. Of a table that is full the agent looks
// at a few places, and counts the stack as lost.
#include "host.h"

#include "mem/walk.h"
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
	struct sosc_control *control = host_control(SOSC_INSTRUMENT_BLOCKS, 1);

	host_section(SOSC_SEC_RULES, &begins, sizeof(begins));
	control->plan[0].own = control->section[SOSC_SEC_RULES];
	host_look();
	own = sosc_own(SOSC_INSTRUMENT_BLOCKS, sizeof(*own));
	CHECK(own);
	buckets = map(SIZE);
	own->first_bucket = (uint64_t)buckets - (uint64_t)own;
	own->first_word = (uint64_t)map(8ull * WORDS) - (uint64_t)own;
	CHECK(sosc_stacks_start(SOSC_INSTRUMENT_BLOCKS) == own);
	fill();
	look_no_further();
	return 0;
}
