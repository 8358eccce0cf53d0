// SPDX-License-Identifier: Apache-2.0
// What the agent's own work for calls takes: all of it where a piece may be long, else a part of it.

#include "thread/work.h"

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
 * Count COST_EVERY pieces of work. Each takes as long as the piece that @thread began at @start, and @rest
 * ticks more. A piece that took very long was most likely not on a processor all the time, and is left out.
 */
void sosc_cost_add(struct sosc_thread *thread, uint64_t start, uint32_t units, uint64_t rest)
{
	uint64_t other = thread->accounted - thread->accounted_then;
	uint64_t ticks = sosc_ticks_since(start);

	other += sosc_cost_clock();
	if (ticks < other || sosc_is_long(start + other, start + ticks))
		return;
	add(&sosc_control->works, COST_EVERY);
	add(&sosc_control->work_units, (uint64_t)units * COST_EVERY);
	add(&sosc_control->took_works, (ticks - other + rest) * COST_EVERY);
}
