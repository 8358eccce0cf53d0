// SPDX-License-Identifier: Apache-2.0
/** Chunks of the ring, in which threads reserve room for records. */
#ifndef SOSC_RING_H
#define SOSC_RING_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_site;
struct sosc_thread;

enum sosc_loss { // how a record that finds no room is counted
	SOSC_LOSS_NOTHING,
	SOSC_LOSS_ENTRY,
	SOSC_LOSS_EXIT,
};

/**
 * Give a chunk the state @to, if *@word, its word in SOSC_SEC_CHUNK_STATES, still equals @seen. If
 * a signal handler has forked since @seen was read, parent and child both come here. What the first
 * has done, the second does not do again, even if the chunk has the same state by then in another
 * thread's hands.
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

// called from assembly
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
