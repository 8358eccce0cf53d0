// SPDX-License-Identifier: Apache-2.0
// Cells: those of slots, by their index, from the first on (known.c), and those that stand
// elsewhere, from the last one down.

#include "call/cell.h"

struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

// The last cell is nobody's: a struct sosc_call_site has no room for its index.
enum {
	CELLS = SOSC_MAX_SLOTS - 1,
	OWNED_BITS = 19, // twice as many as there are cells
	BLOCK_BITS = 6, // slots
	PROBES = 512, // the places of a few blocks
};

struct owned {
	uint64_t addr; // 0: nobody's
	uint32_t kind, cell;
};

static uint32_t cells_taken; // cells outside the slots, from the end down
static uint32_t free_cell; // list of those given back, by original

/** Whether the cell of slot @index is not one of those outside the slots. */
bool sosc_cell_is_free(uint32_t index)
{
	return index < CELLS - cells_taken;
}

uint32_t sosc_cell_take(void)
{
	uint32_t index = free_cell;

	if (index) {
		free_cell = (uint32_t)sosc_cells[index].original;
		return index;
	}
	if (CELLS - cells_taken - 1 <= sosc_control->slots)
		return SOSC_NONE;
	return CELLS - ++cells_taken;
}

void sosc_cell_give(uint32_t index)
{
	sosc_cells[index].original = free_cell;
	free_cell = index;
}

// Slots that lie together have their places together, in few pages: two each, as most have one or two.
static struct owned owned_cells[1 << OWNED_BITS];

static uint64_t place_of(uint64_t addr)
{
	uint64_t block = (addr >> (BLOCK_BITS + 3)) * HINT_FACTOR >>
			 (64 - OWNED_BITS + BLOCK_BITS + 1);

	return block << (BLOCK_BITS + 1) | (addr >> 3 & ((1 << BLOCK_BITS) - 1)) << 1;
}

/**
 * A cell outside the slots that belongs to the slot at @addr, the same one each time its
 * image is loaded; SOSC_NONE = none left.
 */
uint32_t sosc_cell_of(uint64_t addr, enum sosc_cell_use kind)
{
	uint64_t at = place_of(addr);

	for (uint32_t probe = 0; probe < PROBES; probe++) {
		struct owned *owned = &owned_cells[(at + probe) & ((1 << OWNED_BITS) - 1)];
		uint32_t cell;

		if (owned->addr == addr && owned->kind == (uint32_t)kind)
			return owned->cell;
		if (owned->addr)
			continue;
		cell = sosc_cell_take();
		if (cell != SOSC_NONE)
			*owned = (struct owned){addr, kind, cell};
		return cell;
	}
	return SOSC_NONE; // one that nobody finds again would be another one the next time
}

/** The session is over, and its plan goes: no layer leads there any more. */
void sosc_cells_rest(void)
{
	for (uint64_t i = 0; i < sosc_inside.cell_count; i++)
		sosc_layers[i].function = NULL;
	for (uint32_t i = CELLS - cells_taken; i < CELLS; i++)
		sosc_layers[i].function = NULL;
}
