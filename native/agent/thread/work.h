// SPDX-License-Identifier: Apache-2.0
/**
 * The agent's own work for a thread's calls: how long it takes, of which a few pieces are timed.
 */
#ifndef SOSC_WORK_H
#define SOSC_WORK_H

#include "base/clock.h"
#include "thread/thread.h"

#pragma GCC visibility push(hidden)

enum { COST_EVERY = 32 }; // pieces of work, of which one is timed

void sosc_cost_add(struct sosc_thread *thread, uint64_t start, uint32_t units, uint64_t rest);
void sosc_cost_account(struct sosc_thread *thread, uint64_t *shared, uint64_t ticks);

/**
 * Whether the next piece of work of @thread is to be timed. Multiples of the golden ratio are
 * spread evenly, whatever the step: a program that does the same things by turns has each of them timed.
 */
static inline bool sosc_cost_is_due(struct sosc_thread *thread)
{
	return (uint32_t)(++thread->works * 0x9e3779b1u) < UINT32_MAX / COST_EVERY;
}

/** When work of @thread begins that is timed. */
static inline uint64_t sosc_cost_start(struct sosc_thread *thread)
{
	thread->accounted_then = thread->accounted;
	return sosc_ticks();
}

/**
 * @thread begins with work for a call that takes as long as the call's arguments need: it is timed
 * for COST_EVERY of its like, or returns 0.
 */
static inline uint64_t sosc_cost_work(struct sosc_thread *thread)
{
	return sosc_cost_is_due(thread) ? sosc_cost_start(thread) : 0;
}

/** The work that began at @start pauses: when, or 0. */
static inline uint64_t sosc_cost_pause(uint64_t start)
{
	return start ? sosc_ticks() : 0;
}

/**
 * How many ticks reading the clock adds to each time. If the processor reads it beside the work, it adds
 * none; it never adds more than it takes alone. This is half of that.
 */
static inline uint64_t sosc_cost_clock(void)
{
	uint64_t now = sosc_ticks();

	return sosc_ticks_since(now) / 2;
}

/** It goes on: the time since @pause is not in it. */
static inline void sosc_cost_go_on(struct sosc_thread *thread, uint64_t pause)
{
	uint64_t clock;

	if (!pause)
		return;
	clock = sosc_cost_clock();
	thread->accounted += sosc_ticks_since(pause) + clock;
}

/**
 * The work is done that began at @start; it has written so many @units. The rest of its call
 * took @rest ticks.
 */
static inline void sosc_cost_worked(struct sosc_thread *thread, uint64_t start, uint32_t units,
				    uint64_t rest)
{
	if (start)
		sosc_cost_add(thread, start, units, rest);
}

#pragma GCC visibility pop

#endif
