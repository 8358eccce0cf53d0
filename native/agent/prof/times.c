// SPDX-License-Identifier: Apache-2.0
// Measures what the hooks cost an empty function, in the process itself when a session begins. All
// that the measurement has written is wiped.

#include "prof/times.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/cost.h"
#include "call/handler.h"
#include "hook/select.h"
#include "prof/log.h"
#include "thread/thread.h"

uint64_t sosc_prof_mask;
uint64_t sosc_prof_fake_hooks[2]; // called by the empty functions

static uint32_t cells[SOSC_PROF_HOOKS];

// Makes the empty functions call @handler through a cell of its own.
static void fake(uint32_t hook, uint32_t number, void (*handler)(void))
{
	static const struct sosc_function plain;
	uint32_t cell = cells[number] ? cells[number] : sosc_cell_take();

	sosc_prof_fake_hooks[hook] = (uint64_t)sosc_empty;
	if (cell == SOSC_NONE)
		return;
	cells[number] = cell;
	sosc_layers[cell].function = &plain;
	sosc_layers[cell].instrument = SOSC_INSTRUMENT_PROF;
	sosc_layers[cell].session = sosc_inside.sessions;
	sosc_cells[cell].original = (uint64_t)sosc_empty;
	sosc_cells[cell].handler = (uint64_t)handler;
	sosc_prof_fake_hooks[hook] = sosc_entry_of(cell);
}

// Takes the minimum of several rounds, since any disturbance makes a round longer.
static struct sosc_prof_cost measure(struct sosc_prof_table *table, void (*function)(void),
				     uint64_t mask)
{
	struct sosc_prof_cost cost = {.inner = UINT32_MAX, .outer = UINT32_MAX};
	uint64_t direct = UINT64_MAX, before = sosc_prof_mask;

	sosc_prof_mask = mask;
	for (int round = 0; round < COST_ROUNDS; round++) {
		uint64_t without = sosc_call_often((uint64_t)sosc_empty, COST_CALLS);
		uint64_t ticks = sosc_call_often((uint64_t)function, COST_CALLS);
		struct sosc_prof_node *node =
			sosc_prof_node_at(table, sosc_prof_frames(table)->key);

		if (without < direct)
			direct = without;
		if (ticks > direct && ticks - direct < cost.outer)
			cost.outer = (uint32_t)(ticks - direct);
		if (node->total < cost.inner)
			cost.inner = (uint32_t)node->total;
		if (table->nodes)
			table->nodes--;
		memset(node, 0, sizeof(*node));
	}
	table->done = table->last = 0;
	table->left = table->unpaired = 0;
	sosc_prof_mask = before;
	cost.inner /= COST_CALLS;
	cost.outer /= COST_CALLS;
	return cost;
}

// Returns the sum of the ticks of all records between two addresses.
static uint64_t logged(uint64_t from, uint64_t end)
{
	uint64_t ticks = 0;

	for (const struct sosc_reported *at = (void *)from; (uint64_t)at < end; at++)
		ticks += at->ticks;
	return ticks;
}

// The same for calls that are logged.
static struct sosc_prof_cost measure_log(struct sosc_thread *thread, void (*function)(void))
{
	struct sosc_prof_cost cost = {.inner = UINT32_MAX, .outer = UINT32_MAX};
	uint64_t direct = UINT64_MAX, before = thread->pos, units = sosc_cost_units();

	for (int round = 0; round < COST_ROUNDS; round++) {
		uint64_t without = sosc_call_often((uint64_t)sosc_empty, COST_CALLS), ticks;

		thread->pos = units;
		ticks = sosc_call_often((uint64_t)function, COST_CALLS);
		if (without < direct)
			direct = without;
		if (ticks > direct && ticks - direct < cost.outer)
			cost.outer = (uint32_t)(ticks - direct);
		ticks = logged(units, thread->pos);
		if (ticks < cost.inner)
			cost.inner = (uint32_t)ticks;
		memset((void *)units, 0, COST_UNITS);
	}
	thread->pos = before;
	cost.inner /= COST_CALLS;
	cost.outer /= COST_CALLS;
	return cost;
}

static void calibrate_log(struct sosc_prof_table *table, struct sosc_prof_cost *costs)
{
	struct sosc_thread *thread = sosc_thread_self();

	if (!thread)
		return;
	fake(0, 0, sosc_h_prof_log_enter);
	fake(1, 1, sosc_h_prof_log_exit);
	costs[SOSC_PROF_CYG] = measure_log(thread, sosc_prof_fake_cyg);
	fake(0, 2, sosc_h_prof_log_mcount);
	costs[SOSC_PROF_MCOUNT] = measure_log(thread, sosc_prof_fake_mcount);
	fake(0, 3, sosc_h_prof_log_fentry);
	costs[SOSC_PROF_FENTRY] = measure_log(thread, sosc_prof_fake_fentry);
	table->last = table->left = table->unpaired = 0;
}

static struct sosc_prof_cost cost_of(struct sosc_prof_table *table, void (*function)(void))
{
	struct sosc_prof_cost cost = measure(table, function, 0);

	if (sosc_prof_mask)
		cost.outer = measure(table, function, sosc_prof_mask).outer;
	return cost;
}

static void calibrate_tree(struct sosc_prof_table *table, struct sosc_prof_cost *costs)
{
	bool some = sosc_prof_mask;

	fake(0, 0, some ? sosc_h_prof_enter_some : sosc_h_prof_enter);
	fake(1, 1, some ? sosc_h_prof_exit_some : sosc_h_prof_exit);
	costs[SOSC_PROF_CYG] = cost_of(table, sosc_prof_fake_cyg);
	fake(0, 2, some ? sosc_h_prof_mcount_some : sosc_h_prof_mcount);
	costs[SOSC_PROF_MCOUNT] = cost_of(table, sosc_prof_fake_mcount);
	fake(0, 3, some ? sosc_h_prof_fentry_some : sosc_h_prof_fentry);
	costs[SOSC_PROF_FENTRY] = cost_of(table, sosc_prof_fake_fentry);
}

/** Measure what the hooks of this session cost. */
void sosc_prof_calibrate(void)
{
	static struct sosc_prof_cost known[SOSC_PROF_MODES][SOSC_PROF_HOOKS];
	struct sosc_prof_cost *costs = known[sosc_prof_given->mode];
	struct sosc_prof_thread *thread = sosc_prof_thread_slow();
	struct sosc_prof_table *table = thread ? thread->table : sosc_prof_shared;

	if (!costs[SOSC_PROF_CYG].outer && !sosc_clock_off && table != sosc_prof_shared) {
		if (sosc_prof_given->mode == SOSC_PROF_LOG)
			calibrate_log(table, costs);
		else
			calibrate_tree(table, costs);
		for (uint32_t i = 0; i < SOSC_PROF_HOOKS; i++)
			if (cells[i])
				sosc_cells[cells[i]].handler = (uint64_t)sosc_h_jump;
	}
	if (table != sosc_prof_shared) { // nothing has been reported yet
		table->pid = table->tid = table->threads = 0;
		(void)sosc_prof_tables_start();
	}
	memcpy(sosc_prof->cost, costs, sizeof(sosc_prof->cost));
}
