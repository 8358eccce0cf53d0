// SPDX-License-Identifier: Apache-2.0
// blocks: each block is recorded once and ends once, whoever frees it and whatever a signal handler
// allocates in the middle; and a thread knows which chunk comes next, whatever has begun its own.
#include "host.h"

#include "base/agent.h"
#include "base/instrument.h"
#include "blocks/blocks.h"
#include "soscope/stream.h"

#include <pthread.h>
#include <stddef.h>

enum { THREADS = 6, TURNS = 6000, PLACES = 32, CHUNKS = 1024, BITS = 8, WORDS = 4096 };

static struct {
	struct sosc_blocks own;
	uint64_t buckets[1 << BITS];
	uint64_t words[WORDS];
} table = {
	.own = {.mode = SOSC_BLOCKS_EXACT,
		.bits = BITS,
		.words = WORDS,
		.words_used = 1,
		.first_bucket = offsetof(__typeof__(table), buckets),
		.first_word = offsetof(__typeof__(table), words),
		.lead = SOSC_LEAD_NOBODY},
};

static uint64_t allocated, shared[PLACES];
static __thread volatile bool is_busy;
static volatile bool interrupts;

static void *exchange(void *number);

static uint64_t allocate(void)
{
	return 64 * __atomic_add_fetch(&allocated, 1, __ATOMIC_RELAXED);
}

static void release(void)
{
}

static struct sosc_cell make = {.original = (uint64_t)allocate};
static struct sosc_cell end = {.original = (uint64_t)release};

static uint64_t call(uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
					  struct sosc_cell *),
		     struct sosc_cell *cell, uint64_t argument)
{
	volatile uint64_t stack[2] = {(uint64_t)exchange, 0};

	return function(argument, 0, 0, (uint64_t)stack, 0, cell);
}

// It frees what it has made, or what others have.
static void turn(uint64_t random)
{
	uint64_t mine = call(sosc_block_malloc, &make, random >> 32 & 255);

	if (random & 1 << 8)
		mine = __atomic_exchange_n(&shared[random % PLACES], mine, __ATOMIC_ACQ_REL);
	call(sosc_block_free, &end, mine);
}

static void on_alarm(int signal)
{
	static uint64_t seed = 1;

	(void)signal;
	if (!is_busy)
		return;
	interrupts = true;
	turn(host_random(&seed));
	turn(host_random(&seed));
}

static void *exchange(void *number)
{
	uint64_t seed = (uint64_t)number + 1;

	is_busy = true;
	for (uint32_t i = 0; i < TURNS || !interrupts; i++)
		turn(host_random(&seed));
	is_busy = false;
	return NULL;
}

// The first records behind a chunk's end are those of free: a block at the end has no room behind it.
static void next_chunk(void)
{
	for (uint32_t i = 0; i < SOSC_CHUNK_SIZE / SOSC_UNIT; i++)
		call(sosc_block_free, &end, call(sosc_block_malloc, &make, 1));
	CHECK(sosc_block_threads[sosc_thread_self() - sosc_threads].ahead == SOSC_CHUNK_SIZE);
}

static void balance(void)
{
	uint64_t ring = (uint64_t)sosc_section(SOSC_SEC_RING), made = 0, freed = 0, sum = 0;

	for (uint64_t at = 0; at < (uint64_t)CHUNKS * SOSC_CHUNK_SIZE; at += SOSC_UNIT) {
		const struct sosc_block *unit = (void *)(ring + at);
		uint32_t type = unit->commit >> 28;

		if (at % SOSC_CHUNK_SIZE < SOSC_CHUNK_HEADER)
			continue;
		made += type == SOSC_UNIT_BLOCK || type == SOSC_UNIT_BLOCK_OVER;
		freed += type == SOSC_UNIT_FREED || type == SOSC_UNIT_BLOCK_OVER;
		if (type == SOSC_UNIT_BLOCK)
			sum += unit->addr * unit->addr;
		else if (type == SOSC_UNIT_FREED)
			sum -= unit->addr * unit->addr;
		if (type == SOSC_UNIT_BLOCK || type == SOSC_UNIT_BLOCK_OVER)
			CHECK(unit->stack);
	}
	CHECK(made == allocated);
	CHECK(made == freed && !sum);
}

int main(void)
{
	pthread_t threads[THREADS];

	host_control(SOSC_INSTRUMENT_BLOCKS, CHUNKS);
	host_own(&table, sizeof(table));
	sosc_instruments[SOSC_INSTRUMENT_BLOCKS].start();
	next_chunk();
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, exchange, (void *)i));
	host_interrupt(on_alarm);
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	host_interrupt(NULL);
	CHECK(interrupts);
	for (uint32_t i = 0; i < PLACES; i++)
		if (shared[i])
			call(sosc_block_free, &end, shared[i]);
	balance();
	return 0;
}
