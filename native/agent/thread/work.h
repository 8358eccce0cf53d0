// SPDX-License-Identifier: Apache-2.0
/** The time of the agent's own work for a thread's calls, of which a few pieces are timed. */
#ifndef SOSC_WORK_H
#define SOSC_WORK_H

#include "base/clock.h"
#include "thread/thread.h"

#pragma GCC visibility push(hidden)

enum { COST_EVERY = 32 }; // one of this many pieces of work is timed

void sosc_cost_add(struct sosc_thread *thread, uint64_t start, uint32_t units, uint64_t rest);
void sosc_cost_account(struct sosc_thread *thread, uint64_t *shared, uint64_t ticks);

/**
 * Return whether the next piece of work of @thread is to be timed. Multiples of the golden ratio
 * are spread evenly for any step, so in a program that repeats a cycle of calls each kind of call
 * is timed.
 */
static inline bool sosc_cost_is_due(struct sosc_thread *thread)
{
	return (uint32_t)(++thread->works * 0x9e3779b1u) < UINT32_MAX / COST_EVERY;
}

/** Begin timed work of @thread. Return the time. */
static inline uint64_t sosc_cost_start(struct sosc_thread *thread)
{
	thread->accounted_then = thread->accounted;
	return sosc_ticks();
}

/**
 * @thread begins work whose length depends on the call's arguments. Return the time if this piece
 * is timed, which one in COST_EVERY is, else 0.
 */
static inline uint64_t sosc_cost_work(struct sosc_thread *thread)
{
	return sosc_cost_is_due(thread) ? sosc_cost_start(thread) : 0;
}

/** The work that began at @start pauses. Return the time, or 0 if it is not timed. */
static inline uint64_t sosc_cost_pause(uint64_t start)
{
	return start ? sosc_ticks() : 0;
}

/**
 * Return the ticks that reading the clock adds to each time. If the processor reads the clock
 * beside the work, it adds none. It never adds more than it takes alone. This returns half of that.
 */
static inline uint64_t sosc_cost_clock(void)
{
	uint64_t now = sosc_ticks();

	return sosc_ticks_since(now) / 2;
}

/** The work continues. The time since @pause is not part of it. */
static inline void sosc_cost_go_on(struct sosc_thread *thread, uint64_t pause)
{
	uint64_t clock;

	if (!pause)
		return;
	clock = sosc_cost_clock();
	thread->accounted += sosc_ticks_since(pause) + clock;
}

/**
 * The work that began at @start is done and has written @units. The rest of the call took @rest
 * ticks.
 */
static inline void sosc_cost_worked(struct sosc_thread *thread, uint64_t start, uint32_t units,
				    uint64_t rest)
{
	if (start)
		sosc_cost_add(thread, start, units, rest);
}

#pragma GCC visibility pop

#endif
