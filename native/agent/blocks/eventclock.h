// SPDX-License-Identifier: Apache-2.0
/**
 * Times of blocks' events: to read the clock takes longer than all the rest of a record.
 *
 * Events of a thread need an order among themselves, and one with those of other threads that have
 * happened before them, or after. While one thread alone records, it has the lead: it numbers its
 * events, from a time that it has read on, and there is nobody to compare them with. An event of
 * another thread ends that: its thread sees that somebody has the lead, and takes it away before
 * the event is over. What happens behind that event sees it gone, and reads the clock.
 *
 * A clock is read before the lead is looked at, and a lead is there before its clock is read. So a
 * time that was read is not later than the one that anybody counts from afterwards.
 */
#ifndef SOSC_EVENTCLOCK_H
#define SOSC_EVENTCLOCK_H

#include "base/arch.h"
#include "base/clock.h"
#include "blocks/blocks.h"

#pragma GCC visibility push(hidden)

extern uint64_t *sosc_lead; // struct sosc_blocks: who has it

void sosc_lead_start(const struct sosc_blocks *given, struct sosc_blocks *own);
uint64_t sosc_lead_time(struct sosc_block_thread *state);

// Who has the lead behind the moment at which the clock has said @tsc.
static inline uint64_t sosc_lead_behind(uint64_t tsc)
{
	const uint8_t *at = (const uint8_t *)sosc_lead + sosc_zero_behind(tsc);

	return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

/** As sosc_block_time; 0: that has to be asked. */
static inline uint64_t sosc_block_time_soon(struct sosc_block_thread *state)
{
	const uint64_t *word = sosc_lead;
	uint64_t mine = __atomic_load_n(&state->lead, __ATOMIC_ACQUIRE), tsc;
	uint64_t lead = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	if (lead == mine) {
		tsc = sosc_local_add(&state->counted, 1) + 1;
		// looked at behind it: a signal handler may have taken the lead anew, with another number
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
 * The time of an event of this thread: later than all of its earlier ones, and in order with all
 * that happened before it or will happen behind it. As long as the thread is busy it may be early
 * by less than a millisecond; after a rest, by what soscope needs for a heartbeat.
 */
static inline uint64_t sosc_block_time(struct sosc_block_thread *state)
{
	uint64_t tsc = sosc_block_time_soon(state);

	return tsc ? tsc : sosc_lead_time(state);
}

#pragma GCC visibility pop

#endif
