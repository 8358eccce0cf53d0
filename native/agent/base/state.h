// SPDX-License-Identifier: Apache-2.0
/**
 * Variables of the process that every part may read: where the agent lies, what the program has
 * forbidden itself, and the cells that calls go through.
 */
#ifndef SOSC_STATE_H
#define SOSC_STATE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

extern uint64_t sosc_base; // of the blob
extern uint64_t sosc_stack_end; // of the first thread, as soscope has said; 0: unknown
extern uint8_t sosc_scratch[SOSC_SCRATCH];

/** Whether @addr is in the agent's code, trampolines included. */
static inline bool sosc_is_ours(uint64_t addr)
{
	return addr - sosc_base < SOSC_BLOB_DATA;
}

// Above 0: system calls may be forbidden. How often it has been asked for and not been
// refused.
extern uint32_t sosc_sealed;

/** Whether no thread of this process makes system calls for the agent: see sosc_is_sealed. */
static inline bool sosc_is_process_sealed(void)
{
	return __atomic_load_n(&sosc_sealed, __ATOMIC_RELAXED);
}

struct sosc_cell { // behind an entry trampoline
	uint64_t handler;
	uint64_t original; // where calls go; the loader stores here when it binds
};

// What only the slow paths know of a slot as one instrument has hooked it; same index
// as its cell and its struct sosc_slot. A cell belongs to them for ever.
struct sosc_layer {
	uint64_t addr; // the cell the loader fills in
	const struct sosc_function *function; // belongs to the session
	uint64_t session; // sosc_inside.sessions when it was last hooked
	uint32_t key; // with addr, tells it from all others: image, symbol, instrument
	uint8_t instrument; // enum sosc_instrument_kind
	uint8_t ns; // namespace of the image
	uint8_t of_libc; // the C library's function, whose arguments are known
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
