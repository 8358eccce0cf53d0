// SPDX-License-Identifier: Apache-2.0
/**
 * Times of block events, because reading the clock takes longer than all the rest of a record.
 *
 * The events of a thread need an order among themselves, and relative to events of other threads
 * that happened before or after. While only one thread records, it has the lead: it numbers its
 * events, starting from a time that it has read, and there are no other events to compare with. An
 * event of another thread ends that: its thread sees that some thread has the lead, and takes the
 * lead away before the event is over. The first thread then sees at its next event that the lead is
 * gone, and reads the clock.
 *
 * A thread reads the clock before it looks at the lead, and takes the lead before it reads the
 * clock to count from. So a time that was read is never later than the times that another thread
 * counts afterwards.
 */
#ifndef SOSC_EVENTCLOCK_H
#define SOSC_EVENTCLOCK_H

#include "base/arch.h"
#include "base/clock.h"
#include "blocks/blocks.h"

#pragma GCC visibility push(hidden)

extern uint64_t *sosc_lead; // addr of `lead` in struct sosc_blocks, or of a word that nobody uses

void sosc_lead_start(const struct sosc_blocks *given, struct sosc_blocks *own);
uint64_t sosc_lead_time(struct sosc_block_thread *state);

// Returns the lead at a moment after the clock had the value @tsc.
static inline uint64_t sosc_lead_behind(uint64_t tsc)
{
	const uint8_t *at = (const uint8_t *)sosc_lead + sosc_zero_behind(tsc);

	return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

/** Do the work of sosc_block_time if that is fast. Return 0 if it is not. */
static inline uint64_t sosc_block_time_soon(struct sosc_block_thread *state)
{
	const uint64_t *word = sosc_lead;
	uint64_t mine = __atomic_load_n(&state->lead, __ATOMIC_ACQUIRE), tsc;
	uint64_t lead = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	if (lead == mine) {
		tsc = sosc_local_add(&state->counted, 1) + 1;
		// checked afterwards: a signal handler may have taken the lead again, with another
		// number
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == mine && tsc < state->counts_until &&
		    (uint32_t)sosc_control->heartbeat == state->heartbeat)
			return tsc;
	} else if (lead & SOSC_LEAD_NOBODY) {
		tsc = sosc_ticks();
		if (--state->patience > 0 && sosc_lead_behind(tsc) == lead)
			return tsc;
	}
	return 0;
}

/**
 * Return the time of an event of this thread. It is later than all its earlier events, and in order
 * with everything that happened before it or will happen after it. While the thread is busy, the
 * time may be early by less than a millisecond. After a pause, it may be early by up to the time
 * between soscope's heartbeats.
 */
static inline uint64_t sosc_block_time(struct sosc_block_thread *state)
{
	uint64_t tsc = sosc_block_time_soon(state);

	return tsc ? tsc : sosc_lead_time(state);
}

#pragma GCC visibility pop

#endif
