// SPDX-License-Identifier: Apache-2.0
/**
 * Cells: where entry trampolines send calls. A cell belongs for ever to one slot as hooked by one
 * instrument, or to another purpose.
 */
#ifndef SOSC_CELL_H
#define SOSC_CELL_H

#include "base/state.h"

#pragma GCC visibility push(hidden)

struct sosc_lazy { // for sosc_h_resolve, with the index of the cell
	uint64_t index; // index of the relocation in DT_JMPREL
	uint64_t got; // DT_PLTGOT
};

enum sosc_cell_use { RESOLVE_CELL = 1, GUARD_CELL = 2, ALIAS_CELL = 3, SHARED_CELL = 4 };

extern const uint8_t sosc_entries[];
extern struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];

static inline uint64_t sosc_entry_of(uint32_t index)
{
	return (uint64_t)sosc_entries + (uint64_t)index * SOSC_ENTRY_SIZE;
}

/**
 * Return whether @addr is an entry trampoline or a counter in the agent at @base. The word at @addr
 * + SOSC_DISTANCE + CELL_ORIGINAL then holds the address to which calls go on.
 */
static inline bool sosc_leads_on(uint64_t base, uint64_t addr)
{
	return addr - base - SOSC_BLOB_ENTRIES < SOSC_MAX_SLOTS * SOSC_ENTRY_SIZE ||
	       addr - base - SOSC_BLOB_COUNTERS < SOSC_MAX_COUNTERS * SOSC_COUNTER_SIZE;
}

bool sosc_cell_is_free(uint32_t index);
uint32_t sosc_cell_take(void); // take a cell that is not for a slot, SOSC_NONE = none left
void sosc_cell_give(uint32_t index);
uint32_t sosc_cell_of(uint64_t addr, enum sosc_cell_use kind);
void sosc_cells_rest(void);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_lazy) == 16, "indexed like the cells");

#endif
