// SPDX-License-Identifier: Apache-2.0
// Counting, where the assembly's short way does not do: threads without an own
// count array, error rules, calls parked away from their first place.

#include "agent.h"

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
	default:
		return false;
	}
}

static struct sosc_stats *shared_stats(const struct sosc_cell *cell)
{
	return (struct sosc_stats *)sosc_section(SOSC_SEC_COUNTS) + sosc_cell_index(cell);
}

// Read once: a handler may fork at any moment, and the child finds 0.
static uint64_t counts_of(const struct sosc_thread *thread)
{
	return thread ? __atomic_load_n(&thread->counts, __ATOMIC_RELAXED) : 0;
}

// A call in COUNT mode whose thread has no array (yet).
void sosc_count_slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint64_t *shared = sosc_section(SOSC_SEC_COUNTS);
	uint64_t counts = counts_of(thread);

	if (counts) {
		uint64_t *count = (void *)(counts + (uint64_t)cell / 2);

		// one instruction: a signal handler may count here, too
		__asm__ volatile("incq %0" : "+m"(*count));
		return;
	}
	if (!thread && sosc_quiet) {
		__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&shared[sosc_cell_index(cell)], 1, __ATOMIC_RELAXED);
}

// The same in STATS mode: the call is counted, here or in the own array.
void sosc_stats_slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint64_t counts = counts_of(thread);

	if (counts) {
		struct sosc_stats *stats = (void *)(counts + (uint64_t)cell * 4);

		__asm__ volatile("incq %0" : "+m"(stats->calls));
		return;
	}
	if (!thread && sosc_quiet) {
		__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&shared_stats(cell)->calls, 1, __ATOMIC_RELAXED);
}

// A place for a call whose first place is taken; NULL: its exit is not timed.
struct sosc_parked *sosc_park_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t sp)
{
	uint64_t ret = *(const uint64_t *)sp;
	bool tail_called = ret - (uint64_t)sosc_sites < (uint64_t)SOSC_MAX_SITES * SOSC_SITE_SIZE;
	struct sosc_parked *place = NULL;

	(void)cell;
	if (!thread->ready) // a child, forked while its parent was on its way here
		thread = sosc_thread_self();
	if (thread)
		place = sosc_parked_place(thread, sp, tail_called);
	if (!place && !sosc_quiet)
		__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_EXIT_UNPAIRED], 1,
				   __ATOMIC_RELAXED);
	return place;
}

static void add_shared(struct sosc_stats *stats, uint64_t ticks, bool error)
{
	uint64_t min = stats->min, max = stats->max;

	__atomic_fetch_add(&stats->returns, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&stats->total, ticks, __ATOMIC_RELAXED);
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

// @now is 0 where the program has switched the clock off.
void sosc_stats_exit(const struct sosc_regs *regs, uint64_t now)
{
	struct sosc_site *site = (void *)(regs->r11 + SOSC_DISTANCE);
	struct sosc_cell *cell = (void *)site->cell;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_parked *parked;
	struct sosc_stats *stats;
	bool error = is_error(site->rule, regs->rax);
	uint64_t counts = counts_of(thread);
	int64_t ticks = 0;

	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (!thread || site->flags & SITE_FLAG_OLD)
		return;
	parked = sosc_parked_find(thread, (uint64_t)&regs->ret, site->cell);
	if (!parked) {
		__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_EXIT_UNPAIRED], 1,
				   __ATOMIC_RELAXED);
		return;
	}
	if (now && parked->a)
		ticks = (int64_t)(now - parked->a - (thread->overhead - parked->b) -
				  sosc_cost_inner);
	if (ticks < 0)
		ticks = 0;
	if (!(site->flags & SITE_FLAG_TWICE))
		parked->sp = 0;
	thread->overhead += sosc_cost_outer;
	if (!counts) {
		add_shared(shared_stats(cell), (uint64_t)ticks, error);
		return;
	}
	stats = (void *)(counts + site->cell * 4);
	stats->returns++;
	stats->errors += error;
	stats->total += (uint64_t)ticks;
	if (!stats->min || (uint64_t)ticks + 1 < stats->min)
		stats->min = (uint64_t)ticks + 1;
	if ((uint64_t)ticks > stats->max)
		stats->max = (uint64_t)ticks;
}
