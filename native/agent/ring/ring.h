// SPDX-License-Identifier: Apache-2.0
/**
 * Chunks of the ring: room for records.
 */
#ifndef SOSC_RING_H
#define SOSC_RING_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_site;
struct sosc_thread;

enum sosc_loss { // what a record that finds no room is counted as
	SOSC_LOSS_NOTHING,
	SOSC_LOSS_ENTRY,
	SOSC_LOSS_EXIT,
};

/**
 * Give a chunk the state @to, if its *@word of SOSC_SEC_CHUNK_STATES is still the
 * one that was @seen. Where a signal handler has forked since then, parent and child
 * both come here: what the first has done, the other does not do again, even if the
 * chunk is in the same state by now in another's hands.
 */
static inline bool sosc_chunk_change(uint32_t *word, uint32_t seen, enum sosc_chunk_state to)
{
	uint32_t next = (seen & ~(uint32_t)SOSC_CHUNK_STATE) | to;

	if (to == SOSC_CHUNK_OWNED)
		next += SOSC_CHUNK_STATE + 1;
	return __atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

void sosc_ring_again(void);
void sosc_ring_part(struct sosc_thread *thread, bool has_ended);
uint64_t sosc_ring_reserve(struct sosc_thread *thread, uint32_t bytes, enum sosc_loss loss);
uint32_t sosc_ring_ahead(const struct sosc_thread *thread);

// for the assembly
uint64_t sosc_ring_is_ours(const void *unused, struct sosc_thread *thread, uint64_t unit);
uint64_t sosc_ring_unneeded(struct sosc_site *site, struct sosc_thread *thread, uint64_t unit);

#pragma GCC visibility pop

_Static_assert(CHUNK_MASK == SOSC_CHUNK_SIZE - 1, "wire.h");
_Static_assert(CHUNK_FIRST == SOSC_CHUNK_HEADER, "wire.h");
_Static_assert(CHUNK_LIMIT == SOSC_CHUNK_SIZE - SOSC_CHUNK_SLACK, "wire.h");
_Static_assert((int)TICKS_LOW == (int)SOSC_TICKS_LOW, "wire.h");
_Static_assert((int)START_BITS == (int)SOSC_START_BITS, "wire.h");
_Static_assert((int)NO_TICKS == (int)SOSC_NO_TICKS, "wire.h");

#endif
