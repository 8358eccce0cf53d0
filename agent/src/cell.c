// SPDX-License-Identifier: Apache-2.0
// Cells: those of slots, by their index, from the first on (known.c), and those that stand
// elsewhere, from the last one down.

#include "cell.h"
#include "sys.h"

struct sosc_layer sosc_layers[SOSC_MAX_SLOTS];
struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

// The last cell is nobody's: a struct sosc_call_site has no room for its index.
enum {
	CELLS = SOSC_MAX_SLOTS - 1,
	OWNED_BITS = 19, // twice as many as there are cells
	PROBES = 64,
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

// Where the map is that says which cell belongs to a slot; NULL: there is no memory for it.
static struct owned *find_owned(void)
{
	static struct owned *map;
	struct owned *made;

	if (map)
		return map;
	made = sosc_mmap(NULL, sizeof(*map) << OWNED_BITS, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!sosc_mmap_failed(made))
		map = made;
	return map;
}

/**
 * A cell outside the slots that belongs to the slot at @addr, the same one each time its
 * image is loaded; SOSC_NONE = none left.
 */
uint32_t sosc_cell_of(uint64_t addr, enum sosc_cell_use kind)
{
	struct owned *map = find_owned();
	uint64_t at = (addr ^ (uint32_t)kind) * HINT_FACTOR >> (64 - OWNED_BITS);

	for (uint32_t probe = 0; map && probe < PROBES; probe++) {
		struct owned *owned = &map[(at + probe) & ((1 << OWNED_BITS) - 1)];
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
