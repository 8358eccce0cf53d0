// SPDX-License-Identifier: Apache-2.0
// lead: times of threads that pass a baton are in the order in which they have it, and those of a
// thread in its own, whatever signal handlers ask for one in between.
#include "host.h"

#include "base/agent.h"
#include "base/instrument.h"
#include "blocks/eventclock.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 3, TURNS = 30000, LONG = 2000, EARLY = 2000 };

static volatile uint64_t turn, before, led;
static uint64_t seed = 1;
static volatile bool interrupts;
static __thread struct sosc_block_thread state;
static __thread volatile uint64_t handled;

static void on_alarm(int signal)
{
	(void)signal;
	if (!state.tid_check)
		return;
	handled = sosc_block_time(&state);
	interrupts = true;
}

static void one(void)
{
	uint64_t mine = handled, tsc = sosc_block_time(&state);

	CHECK(tsc > mine);
	CHECK(tsc + EARLY > before); // a processor may read its clock before it sees the baton
	before = tsc;
	led += *sosc_lead == state.lead;
}

static void *take_turns(void *number)
{
	uint64_t now;
	uint32_t waits = 0;

	state.tid_check = 1;
	while ((now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) < TURNS || !interrupts) {
		if (now % THREADS != (uint64_t)number) {
			if (++waits % 256 == 0)
				sched_yield();
			continue;
		}
		for (uint64_t i = host_random(&seed) % (now % 8 ? 4 : LONG); i; i--)
			one();
		if (now % 11 == 0)
			sosc_control->heartbeat++;
		__atomic_store_n(&turn, now + 1, __ATOMIC_RELEASE);
	}
	state.tid_check = 0;
	return NULL;
}

int main(void)
{
	struct sosc_blocks own = {.bits = 1, .lead = SOSC_LEAD_NOBODY};
	pthread_t threads[THREADS];

	(void)host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	sosc_lead_start(&own, &own);
	for (uint64_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, take_turns, (void *)i));
	host_interrupt(on_alarm);
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	host_interrupt(NULL);
	CHECK(interrupts);
	CHECK(led > TURNS / 8 * LONG / 4); // else few events were numbered
	own.lead = SOSC_LEAD_NOBODY | SOSC_LEAD_NEVER;
	led = 0;
	for (uint32_t i = 0; i < LONG; i++)
		one();
	CHECK(!led);
	CHECK(state.patience > LONG); // nobody waits for what never comes
	return 0;
}
