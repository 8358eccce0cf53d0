// SPDX-License-Identifier: Apache-2.0
// What the hooks cost an empty function, measured in the process itself when a session begins. What
// the measuring has written is wiped.

#include "times.h"
#include "cell.h"
#include "clock.h"
#include "cost.h"
#include "handler.h"
#include "instrument.h"
#include "prof.h"
#include "select.h"

uint64_t sosc_prof_mask;
uint64_t sosc_prof_fake_hooks[2]; // that the empty functions call

static uint32_t cells[SOSC_PROF_HOOKS];

static uint64_t hook_of(uint32_t number, uint64_t handler)
{
	static const struct sosc_function plain;
	uint32_t cell = cells[number] ? cells[number] : sosc_cell_take();

	if (cell == SOSC_NONE)
		return (uint64_t)sosc_empty;
	cells[number] = cell;
	sosc_layers[cell].function = &plain;
	sosc_layers[cell].instrument = SOSC_INSTRUMENT_PROF;
	sosc_layers[cell].session = sosc_inside.sessions;
	sosc_cells[cell].original = (uint64_t)sosc_empty;
	sosc_cells[cell].handler = handler;
	return sosc_entry_of(cell);
}

// The least of several rounds, as whatever disturbs one makes it longer.
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

static struct sosc_prof_cost cost_of(struct sosc_prof_table *table, void (*function)(void))
{
	struct sosc_prof_cost cost = measure(table, function, 0);

	if (sosc_prof_mask)
		cost.outer = measure(table, function, sosc_prof_mask).outer;
	return cost;
}

/** Say what the hooks of this session cost. */
void sosc_prof_calibrate(void)
{
	static struct sosc_prof_cost known[SOSC_PROF_MODES][SOSC_PROF_HOOKS];
	struct sosc_prof_cost *costs = known[sosc_prof->mode];
	struct sosc_prof_thread *thread = sosc_prof_thread_slow();
	struct sosc_prof_table *table = thread ? thread->table : sosc_prof_shared;

	if (!costs[SOSC_PROF_CYG].outer && !sosc_clock_off && table != sosc_prof_shared) {
		sosc_prof_fake_hooks[0] = hook_of(0, (uint64_t)sosc_h_prof_enter);
		sosc_prof_fake_hooks[1] = hook_of(1, (uint64_t)sosc_h_prof_exit);
		costs[SOSC_PROF_CYG] = cost_of(table, sosc_prof_fake_cyg);
		sosc_prof_fake_hooks[0] = hook_of(2, (uint64_t)sosc_h_prof_mcount);
		costs[SOSC_PROF_MCOUNT] = cost_of(table, sosc_prof_fake_mcount);
		sosc_prof_fake_hooks[0] = hook_of(3, (uint64_t)sosc_h_prof_fentry);
		costs[SOSC_PROF_FENTRY] = cost_of(table, sosc_prof_fake_fentry);
		for (uint32_t i = 0; i < SOSC_PROF_HOOKS; i++)
			if (cells[i])
				sosc_cells[cells[i]].handler = (uint64_t)sosc_h_jump;
	}
	memcpy(sosc_prof->cost, costs, sizeof(sosc_prof->cost));
}
