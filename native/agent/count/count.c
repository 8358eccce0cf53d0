// SPDX-License-Identifier: Apache-2.0
// --count-only: numbers of calls only. The assembly counts in the thread's own array (counts.c).

#include "base/arch.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/cost.h"
#include "call/gate.h"
#include "call/handler.h"
#include "thread/counts.h"
#include "thread/thread.h"

// Counts a call whose thread has no array (yet).
void sosc_count_slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint64_t *shared;
	// read once: a signal handler may fork at any moment, and then the child finds 0
	uint64_t counts = thread ? __atomic_load_n(&thread->counts, __ATOMIC_RELAXED) : 0;

	if (counts) {
		uint64_t *count = (void *)(counts + (uint64_t)cell / 2);

		// one instruction, because a signal handler may count here, too
		sosc_local_increment(count);
		return;
	}
	if (!thread && sosc_quiet) {
		if (sosc_cell_index(cell) < SOSC_MAX_SLOTS) // else the cell stands for a call site
			__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
		return;
	}
	shared = sosc_counts_shared(SOSC_INSTRUMENT_COUNT);
	if (shared)
		__atomic_fetch_add(&shared[sosc_cell_index(cell)], 1, __ATOMIC_RELAXED);
}

// Measures what counting an empty call costs its caller. The measured calls are removed from the
// counts.
static void start(void)
{
	static uint64_t known, usual;
	const struct sosc_thread *thread = sosc_thread_self();
	struct sosc_cost cost;

	if (!known && thread && thread->counts &&
	    sosc_cost_begin(&cost, SOSC_INSTRUMENT_COUNT, (uint64_t)sosc_h_count)) {
		for (int round = 0; round < 2 * COST_ROUNDS; round++)
			sosc_cost_round(&cost, round & 1);
		*(uint64_t *)(thread->counts + (uint64_t)&sosc_cells[cost.cell] / 2) = 0;
		known = sosc_cost_end(&cost);
		usual = sosc_cost_usual(&cost);
	}
	sosc_control->cost_outer = (uint32_t)known;
	sosc_control->cost_call = (uint32_t)usual;
}

static uint64_t handler(const struct sosc_chosen *chosen, bool entry_only)
{
	(void)chosen;
	(void)entry_only;
	return sosc_counts_callers() ? SOSC_GATED(sosc_h_count_callers) : SOSC_GATED(sosc_h_count);
}

void sosc_instrument_count(struct sosc_instrument *instrument)
{
	instrument->handler = handler;
	instrument->counted = (uint64_t)sosc_h_count_callers;
	instrument->start = start;
	instrument->thread = sosc_counts_give;
}
