// SPDX-License-Identifier: Apache-2.0
/**
 * Variables of the process that every part may read: where the agent lies, what the program has
 * forbidden itself, and the cells that calls go through.
 */
#ifndef SOSC_STATE_H
#define SOSC_STATE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

extern uint64_t sosc_base; // address of the blob
// end of the first thread's stack, as given by soscope, 0 if unknown
extern uint64_t sosc_stack_end;
extern uint8_t sosc_scratch[SOSC_SCRATCH];

/** Return whether @addr lies in the agent's code, including trampolines. */
static inline bool sosc_is_ours(uint64_t addr)
{
	return addr - sosc_base < SOSC_BLOB_DATA;
}

// Above 0: system calls may be forbidden. Counts how often the program asked for that and was not
// refused.
extern uint32_t sosc_sealed;

/**
 * Return whether no thread of this process makes system calls for the agent. See sosc_is_sealed.
 */
static inline bool sosc_is_process_sealed(void)
{
	return __atomic_load_n(&sosc_sealed, __ATOMIC_RELAXED);
}

struct sosc_cell { // the data behind an entry trampoline
	uint64_t handler;
	uint64_t original; // where calls go; the loader stores here when it binds the slot
};

// What only the slow paths need of a slot as hooked by one instrument. It has the index of its cell
// and its struct sosc_slot. A cell belongs to its slot and instrument for ever.
struct sosc_layer {
	uint64_t addr; // the slot, which the loader fills in
	const struct sosc_function *function; // in memory of the session
	uint64_t session; // value of sosc_inside.sessions when it was last hooked
	uint32_t key; // identifies it together with addr: a hash of image, symbol, instrument
	uint8_t instrument; // enum sosc_instrument_kind
	uint8_t ns; // namespace of the caller's image
	uint8_t of_libc; // 1: the function is the C library's, whose arguments are known
	uint8_t reserved;
};

extern struct sosc_cell sosc_cells[SOSC_MAX_SLOTS];
extern struct sosc_layer sosc_layers[SOSC_MAX_SLOTS];

static inline uint32_t sosc_cell_index(const struct sosc_cell *cell)
{
	return (uint32_t)(cell - sosc_cells);
}

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_cell) == 16, "layout.h");

#endif
