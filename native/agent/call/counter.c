// SPDX-License-Identifier: Apache-2.0
// Counters: which cells have a counter, and whose calls it counts. It learns that from calls that
// it does not count itself, once in COUNTER_OFTEN calls of a thread from one call site, so it gets
// the call sites that are called often. Any thread may replace the counter's thread at any time, by
// one store. Call sites are kept for the session, because two words of them are read one after the
// other. A session begins without any call sites.

#include "call/counter.h"
#include "base/arch.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/handler.h"
#include "call/site.h"
#include "thread/thread.h"

_Static_assert(SOSC_MAX_COUNTERS < 1 << 16, "counter_of");

static uint16_t counter_of[SOSC_MAX_SLOTS]; // by cell: number + 1, 0 = no counter

static void forget(struct sosc_counter *counter)
{
	for (uint32_t i = 0; i < SOSC_COUNTER_SITES; i++)
		counter->site[i].ret = sosc_inside.sessions;
}

/**
 * A session has begun, with all threads stopped, and call sites have new numbers: forget the old
 * ones.
 */
void sosc_counters_start(void)
{
	sosc_inside.counterdata = (uint64_t)sosc_counterdata;
	for (uint64_t i = 0; i < sosc_inside.counter_count; i++)
		forget(&sosc_counterdata[i]);
}

/**
 * Return the counter of cell @index, whose handler counts by call site. If no counter is left,
 * return the cell's entry trampoline.
 */
uint64_t sosc_counter_entry(uint32_t index)
{
	uint64_t *used = &sosc_inside.counter_count, number = counter_of[index];

	if (!number) {
		struct sosc_counter *counter;

		do {
			number = __atomic_load_n(used, __ATOMIC_RELAXED);
			if (number >= SOSC_MAX_COUNTERS)
				return sosc_entry_of(index);
		} while (!__atomic_compare_exchange_n(used, &number, number + 1, false,
						      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
		counter = &sosc_counterdata[number++];
		counter->original = sosc_entry_of(index);
		counter->cell = (uint64_t)&sosc_cells[index];
		counter->thread = (uint64_t)sosc_threads; // any thread will do for now
		forget(counter);
		counter_of[index] = (uint16_t)number;
	}
	return (uint64_t)sosc_counters + (number - 1) * SOSC_COUNTER_SIZE;
}

// If another thread or a signal handler takes the entry first, it keeps the entry.
static void learn_site(struct sosc_counter *counter, uint64_t session, uint64_t ret, uint64_t at)
{
	const uint64_t wanted[2] = {ret, at};

	for (uint32_t i = 0; i < SOSC_COUNTER_SITES; i++) {
		struct sosc_counter_site *site = &counter->site[i];
		const uint64_t empty[2] = {session, __atomic_load_n(&site->at, __ATOMIC_RELAXED)};

		if (__atomic_load_n(&site->ret, __ATOMIC_RELAXED) == ret ||
		    sosc_swap_pair((uint64_t *)site, empty, wanted))
			return;
	}
}

/**
 * The handler has counted a call of @cell that returns to @ret, which this thread often makes: let
 * the cell's counter count such calls.
 */
uint64_t sosc_counter_learn(struct sosc_cell *cell, const void *unused, uint64_t ret)
{
	uint64_t session = __atomic_load_n(&sosc_inside.sessions, __ATOMIC_RELAXED), code;
	uint32_t index = sosc_cell_index(cell), number = counter_of[index];
	struct sosc_thread *thread = number ? sosc_thread_self() : NULL;
	struct sosc_counter *counter = &sosc_counterdata[number ? number - 1 : 0];
	const struct sosc_site *site;

	(void)unused;
	// if there is a gate, the cell has another handler
	if (!thread || cell->handler != sosc_instruments[SOSC_INSTRUMENT_COUNT].counted)
		return 0;
	code = sosc_site_find(ret, cell);
	if (!code)
		return 0;
	site = (const void *)(code + SOSC_DISTANCE);
	learn_site(counter, session, ret, ((uint64_t)cell + (uint64_t)(int32_t)site->open) / 2);
	__atomic_store_n(&counter->thread, (uint64_t)thread, __ATOMIC_RELAXED);
	return 0;
}
