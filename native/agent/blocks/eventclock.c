// SPDX-License-Identifier: Apache-2.0
// Which thread has the lead, and what it costs to lose it. Two threads that alternate would
// exchange a cache line for each event. So a thread that has soon lost the lead waits longer until
// it tries to take it again.

#include "blocks/eventclock.h"
#include "base/agent.h"

enum {
	COUNTS = 256, // events between two readings of the clock,
	BUSY = 1 << 21, // if this many events take fewer ticks than this,
	SOON = BUSY / COUNTS, // or a single event fewer than this
	PATIENCE = 64, // events until a thread takes a lead that no thread has,
	LOSSES_MAX = 10, // doubled each time that it soon lost the lead, at most this often
	WORTH = 4, // a lead is worthwhile if it lasts for this many readings of the clock
};

static uint64_t nobody, *leads;
uint64_t *sosc_lead;

/** A session begins. */
void sosc_lead_start(const struct sosc_blocks *given, struct sosc_blocks *own)
{
	bool is_there = given->bits; // else there is no shared memory for it

	nobody = SOSC_LEAD_NOBODY | SOSC_LEAD_NEVER;
	leads = is_there ? &own->leads : NULL;
	sosc_lead = is_there ? &own->lead : &nobody;
}

static uint64_t another(void)
{
	return __atomic_add_fetch(leads, SOSC_LEAD_NEXT, __ATOMIC_RELAXED);
}

// Values are never reused: if the old value is still there, no thread has had the lead in between.
static bool exchange(uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(sosc_lead, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static int32_t patience_of(const struct sosc_block_thread *state)
{
	return PATIENCE << state->losses;
}

static void take(struct sosc_block_thread *state, uint64_t from)
{
	uint64_t mine = another();

	if (state->led >= WORTH)
		state->losses = 0;
	else if (state->losses < LOSSES_MAX)
		state->losses++;
	state->led = 0;
	state->patience = patience_of(state);
	state->counts_until = 0; // it is from an earlier time
	__atomic_store_n(&state->lead, mine, __ATOMIC_RELEASE);
	(void)exchange(from, mine);
	sosc_counter_waits();
}

// Returns a time not before @now. A signal handler's times are later than the times of the code
// that it has interrupted.
static uint64_t count_from(struct sosc_block_thread *state, uint64_t now)
{
	uint64_t counted;

	do {
		counted = __atomic_load_n(&state->counted, __ATOMIC_RELAXED);
		if (counted >= now)
			return sosc_local_add(&state->counted, 1) + 1;
	} while (!sosc_local_swap(&state->counted, counted, now));
	return now;
}

// The clock was read: count from there on, if events follow fast enough.
static uint64_t read(struct sosc_block_thread *state, uint64_t now, uint32_t heartbeat)
{
	uint64_t took = now - state->counts_from;
	bool is_busy = took < (state->counts_until ? BUSY : SOON);
	uint64_t tsc = count_from(state, now);

	state->counts_until = 0;
	state->counts_from = tsc;
	state->heartbeat = heartbeat;
	if (state->led < WORTH)
		state->led++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->counts_until = is_busy ? tsc + COUNTS : 0;
	return tsc;
}

/** Do the work of sosc_block_time by reading the clock. */
uint64_t sosc_lead_time(struct sosc_block_thread *state)
{
	while (!sosc_clock_off) {
		uint32_t heartbeat = (uint32_t)sosc_control->heartbeat;
		uint64_t now = sosc_ticks(), lead = sosc_lead_behind(now);

		if (lead == state->lead)
			return read(state, now, heartbeat);
		if (lead & SOSC_LEAD_NEVER)
			state->patience = INT32_MAX; // so that this is not called for each event
		if (lead & SOSC_LEAD_NEVER || (lead & SOSC_LEAD_NOBODY && state->patience > 0))
			return count_from(state, now);
		if (lead & SOSC_LEAD_NOBODY) {
			take(state, lead);
			continue;
		}
		if (state->patience <= 0)
			state->patience = patience_of(state);
		(void)exchange(lead, another() | SOSC_LEAD_NOBODY);
	}
	state->counts_until = 0;
	return 0;
}
