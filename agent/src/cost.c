// SPDX-License-Identifier: Apache-2.0
// What a hook adds to an empty call: the least of several rounds, as whatever disturbs one makes it
// longer.

#include "cost.h"
#include "arch.h"
#include "cell.h"
#include "chunk.h"
#include "clock.h"
#include "delay.h"
#include "handler.h"
#include "select.h"

_Static_assert(SOSC_CHUNK_SIZE / 2 + SOSC_CHUNK_HEADER + COST_UNITS <= CHUNK_LIMIT, "room");

/**
 * Hook an empty function by @handler, as a slot of @kind would be; false: no cell is left, or the
 * clock must not be read.
 */
bool sosc_cost_begin(struct sosc_cost *cost, enum sosc_instrument_kind kind, uint64_t handler)
{
	static const struct sosc_function plain;
	uint32_t cell = sosc_clock_off ? SOSC_NONE : sosc_cell_take();

	if (cell == SOSC_NONE)
		return false;
	sosc_layers[cell].function = &plain;
	sosc_layers[cell].instrument = (uint8_t)kind; // whose exits its calls have
	sosc_cells[cell].original = (uint64_t)sosc_empty;
	sosc_cells[cell].handler = handler;
	*cost = (struct sosc_cost){.cell = cell, .direct = UINT64_MAX, .hooked = UINT64_MAX};
	return true;
}

/** Call the function, and call it through the hook. */
void sosc_cost_round(struct sosc_cost *cost)
{
	uint64_t ticks = sosc_call_often((uint64_t)sosc_empty, COST_CALLS);

	if (ticks < cost->direct)
		cost->direct = ticks;
	ticks = sosc_call_often(sosc_entry_of(cost->cell), COST_CALLS);
	if (ticks < cost->hooked)
		cost->hooked = ticks;
}

/** Take the hook out; returns the ticks that it added to a call. */
uint64_t sosc_cost_end(const struct sosc_cost *cost)
{
	sosc_cells[cost->cell].handler = (uint64_t)sosc_h_jump;
	return cost->hooked > cost->direct ? (cost->hooked - cost->direct) / COST_CALLS : 0;
}

static void add(uint64_t *shared, uint64_t value)
{
	__atomic_fetch_add(shared, value, __ATOMIC_RELAXED);
}

/**
 * @thread has worked for @ticks, which are counted in @shared, and nowhere else. If it was very long,
 * it was most likely not on a processor all the time.
 */
void sosc_cost_account(struct sosc_thread *thread, uint64_t *shared, uint64_t ticks)
{
	thread->accounted += ticks;
	add(shared, ticks < DELAY_LONG ? ticks : DELAY_LONG);
}

/**
 * Count COST_EVERY pieces of work as long as the one of @thread that began at @start. One that took
 * very long was most likely not on a processor all the time, and is left out.
 */
void sosc_cost_add(struct sosc_thread *thread, uint64_t start, uint32_t units)
{
	uint64_t other = thread->accounted - thread->accounted_then;
	uint64_t ticks = sosc_ticks_since(start);

	if (ticks < other || sosc_is_long(start + other, start + ticks))
		return;
	add(&sosc_control->works, COST_EVERY);
	add(&sosc_control->work_units, (uint64_t)units * COST_EVERY);
	add(&sosc_control->took_works, (ticks - other) * COST_EVERY);
}

/**
 * Where a thread may write COST_UNITS of records that nobody reads: in front of a boundary of
 * chunks, as that memory begins at any page.
 */
uint64_t sosc_cost_units(void)
{
	uint64_t chunk = (uint64_t)sosc_chunk_at(SOSC_NONE);

	if ((chunk & CHUNK_MASK) > SOSC_CHUNK_SIZE / 2)
		chunk = (chunk | CHUNK_MASK) + 1;
	return chunk + SOSC_CHUNK_HEADER;
}
