// SPDX-License-Identifier: Apache-2.0
// Cells: those of slots, by their index, from the first on (known.c), and those that stand
// elsewhere, from the last one down.

#include "cell.h"

struct sosc_layer sosc_layers[SOSC_MAX_SLOTS];
struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

// The last cell is nobody's: a struct sosc_call_site has no room for its index.
enum { CELLS = SOSC_MAX_SLOTS - 1 };

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

/**
 * A cell outside the slots that belongs to the slot at @addr, the same one each time its
 * image is loaded; SOSC_NONE = none left.
 */
uint32_t sosc_cell_of(uint64_t addr, enum sosc_cell_use kind)
{
	static struct {
		uint64_t addr;
		uint32_t kind, cell;
	} owned[4096];
	uint32_t at = (uint32_t)((addr ^ (uint32_t)kind) * HINT_FACTOR >> 52), probe;

	for (probe = 0; probe < 64; probe++, at = (at + 1) & 4095) {
		if (owned[at].addr == addr && owned[at].kind == (uint32_t)kind)
			return owned[at].cell;
		if (!owned[at].addr) {
			uint32_t cell = sosc_cell_take();

			if (cell == SOSC_NONE)
				return SOSC_NONE;
			owned[at].addr = addr;
			owned[at].kind = kind;
			owned[at].cell = cell;
			return cell;
		}
	}
	return sosc_cell_take();
}
