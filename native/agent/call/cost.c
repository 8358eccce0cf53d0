// SPDX-License-Identifier: Apache-2.0
// What a hook adds to an empty call. The smallest time of several rounds is the cost, because any
// disturbance makes a round longer. A call in a real program takes more, see sosc_cost_usual.

#include "call/cost.h"
#include "base/arch.h"
#include "base/clock.h"
#include "call/cell.h"
#include "call/handler.h"
#include "ring/chunk.h"

_Static_assert(SOSC_CHUNK_SIZE / 2 + SOSC_CHUNK_HEADER + COST_UNITS <= CHUNK_LIMIT, "room");

/**
 * Hook an empty function with @handler, as a slot of instrument @kind would be. Return false if no
 * cell is left or the clock must not be read.
 */
bool sosc_cost_begin(struct sosc_cost *cost, enum sosc_instrument_kind kind, uint64_t handler)
{
	static const struct sosc_function plain;
	uint32_t cell = sosc_clock_off ? SOSC_NONE : sosc_cell_take();

	if (cell == SOSC_NONE)
		return false;
	sosc_layers[cell].function = &plain;
	sosc_layers[cell].instrument = (uint8_t)kind; // selects the exit handler
	sosc_cells[cell].original = (uint64_t)sosc_empty;
	sosc_cells[cell].handler = handler;
	*cost = (struct sosc_cost){.cell = cell, .direct = UINT64_MAX, .hooked = UINT64_MAX};
	return true;
}

/**
 * Call the function directly and through the hook. @apart: each call begins after the previous one
 * is over.
 */
void sosc_cost_round(struct sosc_cost *cost, bool apart)
{
	uint64_t (*calls)(uint64_t, uint64_t) = apart ? sosc_call_apart : sosc_call_often;
	uint64_t direct = calls((uint64_t)sosc_empty, COST_CALLS);
	uint64_t hooked = calls(sosc_entry_of(cost->cell), COST_CALLS);

	cost->more[apart][cost->rounds[apart]++] = (int64_t)(hooked - direct);
	if (apart)
		return;
	if (direct < cost->direct)
		cost->direct = direct;
	if (hooked < cost->hooked)
		cost->hooked = hooked;
}

/** Subtract @ticks per call from the last round, because they are counted elsewhere. */
void sosc_cost_less(struct sosc_cost *cost, bool apart, uint64_t ticks)
{
	cost->more[apart][cost->rounds[apart] - 1] -= (int64_t)ticks * COST_CALLS;
}

static int64_t median(int64_t *values, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t k = i; k && values[k] < values[k - 1]; k--) {
			int64_t value = values[k];

			values[k] = values[k - 1];
			values[k - 1] = value;
		}
	return count ? values[count / 2] : 0;
}

/**
 * Return the ticks by which a hook lengthens a call in a program that does other work, too. When
 * calls follow each other directly, the processor overlaps several of them. When calls are kept
 * apart, it overlaps nothing. A call in a program lies between these two. This function returns the
 * middle, because it is not known how much other work the processor has.
 */
uint64_t sosc_cost_usual(struct sosc_cost *cost)
{
	int64_t ticks =
		median(cost->more[0], cost->rounds[0]) + median(cost->more[1], cost->rounds[1]);

	return ticks > 0 ? ((uint64_t)ticks + COST_CALLS) / (2 * COST_CALLS) : 0;
}

/** Remove the hook. Return the ticks that it added to a call. */
uint64_t sosc_cost_end(const struct sosc_cost *cost)
{
	sosc_cells[cost->cell].handler = (uint64_t)sosc_h_jump;
	return cost->hooked > cost->direct ? (cost->hooked - cost->direct) / COST_CALLS : 0;
}

/**
 * Return memory to which a thread may write COST_UNITS bytes of records that are never read. The
 * memory lies before a chunk boundary if that is needed, because it begins at any page.
 */
uint64_t sosc_cost_units(void)
{
	uint64_t chunk = (uint64_t)sosc_chunk_at(SOSC_NONE);

	if ((chunk & CHUNK_MASK) > SOSC_CHUNK_SIZE / 2)
		chunk = (chunk | CHUNK_MASK) + 1;
	return chunk + SOSC_CHUNK_HEADER;
}
