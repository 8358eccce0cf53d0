// SPDX-License-Identifier: Apache-2.0
// The time of the agent's own work for calls: all of it is measured if a piece may be long, else a
// sample.

#include "thread/work.h"

static void add(uint64_t *shared, uint64_t value)
{
	__atomic_fetch_add(shared, value, __ATOMIC_RELAXED);
}

/**
 * @thread has worked for @ticks, which are added to @shared and to no other counter. If the work
 * was very long, the thread was most likely off the processor for a part of the time, so at most
 * DELAY_LONG is added.
 */
void sosc_cost_account(struct sosc_thread *thread, uint64_t *shared, uint64_t ticks)
{
	thread->accounted += ticks;
	add(shared, ticks < DELAY_LONG ? ticks : DELAY_LONG);
}

/**
 * Count COST_EVERY pieces of work, each as long as the piece that @thread began at @start plus
 * @rest ticks. If a piece was very long, the thread was most likely off the processor for a part of
 * the time, and the piece is left out.
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
