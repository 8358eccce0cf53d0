// SPDX-License-Identifier: Apache-2.0
// -c: calls, errors and times. The assembly has the fast path. This file handles threads without
// their own count array, error rules, and calls that are not parked in their first place.

#include "stats/stats.h"
#include "base/arch.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/cost.h"
#include "call/gate.h"
#include "call/handler.h"
#include "call/site.h"
#include "ring/delay.h"
#include "thread/counts.h"
#include "thread/park.h"
#include "thread/thread.h"

// stored in a parked call in place of the thread's `done`: the call has returned once
static const uint64_t returned = UINT64_MAX;

uint64_t sosc_cost_inner;
uint64_t sosc_cost_outer;

static bool is_error(uint32_t rule, uint64_t result)
{
	switch (rule) {
	case SOSC_ERROR_INT_NEGATIVE:
		return (int32_t)result < 0;
	case SOSC_ERROR_LONG_NEGATIVE:
		return (int64_t)result < 0;
	case SOSC_ERROR_NULL:
		return result == 0;
	case SOSC_ERROR_MINUS_ONE:
		return result == UINT64_MAX;
	case SOSC_ERROR_INT_NONZERO:
		return (int32_t)result != 0;
	case SOSC_ERROR_INT_ZERO:
		return (int32_t)result == 0;
	case SOSC_ERROR_INT_MINUS_ONE:
		return (int32_t)result == -1;
	default:
		return false;
	}
}

// Returns NULL if this session keeps no statistics.
static struct sosc_stats *shared_stats(const struct sosc_cell *cell)
{
	struct sosc_stats *shared = sosc_counts_shared(SOSC_INSTRUMENT_STATS);

	return shared ? &shared[sosc_cell_index(cell)] : NULL;
}

static uint64_t stats_of(const struct sosc_thread *thread)
{
	return thread ? __atomic_load_n(&thread->stats, __ATOMIC_RELAXED) : 0;
}

// Counts a call, in the shared array or in the thread's own.
void sosc_stats_slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint64_t counts = stats_of(thread);
	struct sosc_stats *stats;

	if (counts) {
		stats = (void *)(counts + (uint64_t)cell * 4);
		sosc_local_increment(&stats->calls);
		return;
	}
	if (!thread && sosc_quiet) {
		if (sosc_cell_index(cell) < SOSC_MAX_SLOTS) // else the cell stands for a call site
			__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
		return;
	}
	stats = shared_stats(cell);
	if (stats)
		__atomic_fetch_add(&stats->calls, 1, __ATOMIC_RELAXED);
}

// Returns a place for a call whose first place is taken. NULL: its exit is not timed.
struct sosc_parked *sosc_park_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t sp)
{
	bool tail_called = sosc_is_tail_called(*(const uint64_t *)sp, cell);

	if (!thread->ready) // this is a child, forked while its parent was on its way here
		thread = sosc_thread_self();
	return thread ? sosc_parked_place(thread, sp, cell, tail_called) : NULL;
}

/**
 * Return the self time of a call that returns: the part of its @ticks in which no nested call ran.
 * `done` grows by it, so that it contains each tick once. `done` never exceeds the time that has
 * passed, even if interleaved calls (coroutines) end in any order. If a call returns a second time,
 * the time in between is not its self time.
 */
static uint64_t self_ticks(struct sosc_thread *thread, const struct sosc_parked *parked,
			   uint64_t ticks)
{
	uint64_t self = parked->b + ticks - thread->done;

	if (parked->b == returned)
		return 0;
	if (self > ticks) // other calls have taken all of it; or the call is another thread's
		self = (int64_t)self < 0 ? 0 : ticks;
	thread->done += self;
	return self;
}

static void add_shared(struct sosc_stats *stats, uint64_t ticks, uint64_t self, bool error)
{
	uint64_t min = stats->min, max = stats->max;

	__atomic_fetch_add(&stats->returns, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&stats->total, ticks, __ATOMIC_RELAXED);
	__atomic_fetch_add(&stats->self, self, __ATOMIC_RELAXED);
	if (error)
		__atomic_fetch_add(&stats->errors, 1, __ATOMIC_RELAXED);
	while ((!min || ticks + 1 < min) &&
	       !__atomic_compare_exchange_n(&stats->min, &min, ticks + 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	while (ticks > max && !__atomic_compare_exchange_n(&stats->max, &max, ticks, false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

// Records an exit of -c. @now is 0 if the program has disabled the clock.
void sosc_stats_exit(struct sosc_regs *regs, uint64_t now)
{
	struct sosc_site *site = sosc_returned_to(regs);
	struct sosc_cell *cell = (void *)site->cell;
	uint64_t counted = site->cell + (uint64_t)(int32_t)site->open;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_parked *parked;
	struct sosc_stats *stats;
	bool error = is_error(site->rule, *sosc_result(regs));
	uint64_t counts = stats_of(thread), self;
	int64_t ticks = 0;

	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	// a thread that a signal handler interrupted may continue in another session
	if (!thread || site->flags & SITE_FLAG_OLD || !sosc_holds(SOSC_INSTRUMENT_STATS))
		return;
	parked = sosc_parked_find(thread, (uint64_t)&regs->ret, site->cell);
	if (!parked) {
		// a second return is not a call, and a call of the parent is counted in the parent
		if (!(site->flags & SITE_FLAG_TWICE) && !sosc_thread_inherits((uint64_t)&regs->ret))
			__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_EXIT_UNPAIRED], 1,
					   __ATOMIC_RELAXED);
		return;
	}
	if (now)
		now = sosc_delay_at_exit(thread, now);
	if (now && parked->a)
		ticks = (int64_t)(now - thread->overhead - parked->a - sosc_cost_inner);
	if (ticks < 0)
		ticks = 0;
	self = self_ticks(thread, parked, (uint64_t)ticks);
	if (site->flags & SITE_FLAG_TWICE)
		parked->b = returned;
	else
		parked->sp = 0;
	thread->overhead += sosc_cost_outer;
	if (!counts) {
		stats = shared_stats((const void *)counted);
		if (stats)
			add_shared(stats, (uint64_t)ticks, self, error);
		return;
	}
	stats = (void *)(counts + counted * 4);
	stats->returns++;
	stats->errors += error;
	stats->total += (uint64_t)ticks;
	stats->self += self;
	if (!stats->min || (uint64_t)ticks + 1 < stats->min)
		stats->min = (uint64_t)ticks + 1;
	if ((uint64_t)ticks > stats->max)
		stats->max = (uint64_t)ticks;
}

// Measures what an empty call costs its caller, and how long it appears to take itself. The
// measured calls are removed from the statistics.
static void start(void)
{
	static uint64_t usual;
	struct sosc_control *control = sosc_control;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_stats *stats;
	struct sosc_cost cost;
	uint64_t inner = UINT64_MAX;

	control->cost_inner = (uint32_t)sosc_cost_inner;
	control->cost_outer = (uint32_t)sosc_cost_outer;
	control->cost_call = (uint32_t)usual;
	if (sosc_cost_outer || !thread || !thread->stats ||
	    !sosc_cost_begin(&cost, SOSC_INSTRUMENT_STATS, (uint64_t)sosc_h_stats))
		return;
	stats = (void *)(thread->stats + (uint64_t)&sosc_cells[cost.cell] * 4);
	for (int round = 0; round < 2 * COST_ROUNDS; round++) {
		memset(stats, 0, sizeof(*stats));
		sosc_cost_round(&cost, round & 1);
		if (!(round & 1) && stats->total < inner)
			inner = stats->total;
	}
	memset(stats, 0, sizeof(*stats));
	thread->overhead = 0;
	thread->done = 0;
	sosc_cost_inner = inner / COST_CALLS;
	sosc_cost_outer = sosc_cost_end(&cost);
	usual = sosc_cost_usual(&cost);
	control->cost_inner = (uint32_t)sosc_cost_inner;
	control->cost_outer = (uint32_t)sosc_cost_outer;
	control->cost_call = (uint32_t)usual;
}

static uint64_t handler(const struct sosc_chosen *chosen, bool entry_only)
{
	(void)chosen;
	return entry_only ? SOSC_GATED(sosc_h_stats_entry) : SOSC_GATED(sosc_h_stats);
}

void sosc_instrument_stats(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK | SOSC_NEEDS_PARKED;
	instrument->handler = handler;
	instrument->exit_handler = (uint64_t)sosc_x_stats;
	instrument->start = start;
	instrument->thread = sosc_counts_give;
}
