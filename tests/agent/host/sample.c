// SPDX-License-Identifier: Apache-2.0
// sample: how far it is to the next byte that is chosen, and that each block that was recorded ends
// once, whoever frees it.
#include "host.h"

#include "base/agent.h"
#include "blocks/blocks.h"
#include "base/instrument.h"
#include "soscope/stream.h"

#include <pthread.h>

enum { MEAN = 50, DRAWS = 40000, THREADS = 8, TURNS = 2000, PLACES = 32, CHUNKS = 256 };

static struct sosc_cell make = {.original = (uint64_t)malloc};
static struct sosc_cell end = {.original = (uint64_t)free};
static uint64_t shared[PLACES];

static void *exchange(void *number);

static uint64_t call(uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
					  struct sosc_cell *),
		     struct sosc_cell *cell, uint64_t argument)
{
	volatile uint64_t stack[2] = {(uint64_t)exchange, 0};

	return function(argument, 0, 0, (uint64_t)stack, 0, cell);
}

static void *exchange(void *number)
{
	uint64_t seed = (uint64_t)number + 1;

	for (uint32_t i = 0; i < TURNS; i++) {
		uint64_t random = host_random(&seed), *place = &shared[random % PLACES];
		uint64_t mine = call(sosc_sample_malloc, &make, random >> 32 & 255);

		mine = __atomic_exchange_n(place, mine, __ATOMIC_ACQ_REL);
		call(sosc_sample_free, &end, mine);
	}
	return NULL;
}

static void draws(void)
{
	uint64_t sum = 0, least = UINT64_MAX;
	struct sosc_block_thread state;

	for (uint32_t i = 0; i < DRAWS; i++) {
		sosc_sample_thread(&state, i);
		sum += state.left;
		if (state.left < least)
			least = state.left;
	}
	CHECK(least == 1);
	// six standard deviations, each of them MEAN / sqrt(DRAWS)
	CHECK(sum > DRAWS * MEAN - 6 * 200 * MEAN && sum < DRAWS * MEAN + 6 * 200 * MEAN);
}

// A block that is not chosen leaves the next one where it is.
static void counts_down(void)
{
	uint64_t first = call(sosc_sample_malloc, &make, 8), second; // the thread is known now
	struct sosc_block_thread *state = &sosc_block_threads[sosc_thread_self() - sosc_threads];

	state->left = 1000;
	second = call(sosc_sample_malloc, &make, 99);
	CHECK(state->left == 900);
	call(sosc_sample_free, &end, first);
	call(sosc_sample_free, &end, second);
}

// What is recorded of a block has been there once more than it has been freed, or as often.
static void balance(void)
{
	uint64_t ring = (uint64_t)sosc_section(SOSC_SEC_RING), made = 0, freed = 0, sum = 0;

	for (uint64_t at = 0; at < (uint64_t)CHUNKS * SOSC_CHUNK_SIZE; at += SOSC_UNIT) {
		const struct sosc_block *unit = (void *)(ring + at);

		if (at % SOSC_CHUNK_SIZE < SOSC_CHUNK_HEADER)
			continue;
		made += unit->commit >> 28 == SOSC_UNIT_BLOCK;
		freed += unit->commit >> 28 == SOSC_UNIT_FREED;
		if (unit->commit >> 28 == SOSC_UNIT_BLOCK)
			sum += unit->addr;
		else if (unit->commit >> 28 == SOSC_UNIT_FREED)
			sum -= unit->addr;
	}
	CHECK(made > THREADS * TURNS / 4 && made < THREADS * TURNS);
	CHECK(made == freed && !sum);
}

int main(void)
{
	// as soscope says it: MEAN * ln(2), times 2^16
	struct sosc_blocks own = {.mode = SOSC_BLOCKS_SAMPLE, .scale = 2248304};
	pthread_t threads[THREADS];

	host_control(SOSC_INSTRUMENT_BLOCKS, CHUNKS);
	host_own(&own, sizeof(own));
	sosc_instruments[SOSC_INSTRUMENT_BLOCKS].start();
	draws();
	counts_down();
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, exchange, (void *)i));
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < PLACES; i++)
		call(sosc_sample_free, &end, shared[i]);
	balance();
	return 0;
}
