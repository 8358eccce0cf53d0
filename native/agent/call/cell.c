// SPDX-License-Identifier: Apache-2.0
// Cells. Cells of slots have the index of their slot, from 0 up (known.c). Cells for other purposes
// are taken from the end down.

#include "call/cell.h"

struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

// The last cell is not used: a struct sosc_call_site has no room for its index.
enum {
	CELLS = SOSC_MAX_SLOTS - 1,
	OWNED_BITS = 19, // twice as many as there are cells
	BLOCK_BITS = 6, // 64 slots
	PROBES = 512, // the entries of a few blocks
};

struct owned {
	uint64_t addr; // address of the slot, 0 if free
	uint32_t kind, cell;
};

static uint32_t cells_taken; // cells taken for other purposes, from the end down
static uint32_t free_cell; // list of cells that were given back, linked by `original`

/** Return whether the cell at slot index @index is not taken for another purpose. */
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

// Slots that lie next to each other have their entries next to each other, in few pages: two
// entries for each slot, because most slots need one or two.
static struct owned owned_cells[1 << OWNED_BITS];

static uint64_t place_of(uint64_t addr)
{
	uint64_t block = (addr >> (BLOCK_BITS + 3)) * HINT_FACTOR >>
			 (64 - OWNED_BITS + BLOCK_BITS + 1);

	return block << (BLOCK_BITS + 1) | (addr >> 3 & ((1 << BLOCK_BITS) - 1)) << 1;
}

/**
 * Return a cell for another purpose of the slot at @addr. It is the same cell each time the image
 * is loaded. Return SOSC_NONE if no cell is left.
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
	// a cell that cannot be found again would be a different cell the next time
	return SOSC_NONE;
}

/** The session is over, and its plan is unmapped: clear all pointers from layers into the plan. */
void sosc_cells_rest(void)
{
	for (uint64_t i = 0; i < sosc_inside.cell_count; i++)
		sosc_layers[i].function = NULL;
	for (uint32_t i = CELLS - cells_taken; i < CELLS; i++)
		sosc_layers[i].function = NULL;
}
