// SPDX-License-Identifier: Apache-2.0
// Gates, and the instruments OPEN and CLOSE, which open and close them when the program calls a
// function.
//
// OPEN comes before the instrument that records, and CLOSE after it. So the calls that open and
// close the gate are recorded themselves, and calls outside are not. A call that was recorded gets
// its exit, even if the gate is closed meanwhile. A call that was not recorded goes through no
// return trampoline.

#include "call/gate.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/handler.h"
#include "thread/thread.h"

static uint32_t place; // index of this process's gate
// used if there are no gates, or if nothing is recorded
static uint32_t open_for_ever, closed_for_ever;

static uint32_t *gates(void)
{
	bool some = sosc_session->section[SOSC_SEC_GATES].size;

	return some ? sosc_section(SOSC_SEC_GATES) : NULL;
}

static void use(uint32_t *gate)
{
	__atomic_store_n(sosc_gate, (uint64_t)gate, __ATOMIC_RELEASE);
}

/** A session begins, with all threads stopped. */
void sosc_gate_start(void)
{
	uint32_t *all = gates();

	open_for_ever = 1;
	closed_for_ever = 0;
	place = 0;
	sosc_control->gates = 1;
	use(all ? all : &open_for_ever);
}

/** Record nothing from now on: in a child that is not followed, and when the session is over. */
void sosc_gate_rest(void)
{
	use(&closed_for_ever);
}

/** This is a forked child. It gets a gate of its own, in the state of its parent's gate. */
void sosc_gate_forked(void)
{
	uint32_t *all = gates();
	uint64_t mine;

	if (!all) {
		use(&open_for_ever);
		return;
	}
	mine = __atomic_fetch_add(&sosc_control->gates, 1, __ATOMIC_RELAXED);
	if (mine < SOSC_GATES) {
		__atomic_store_n(&all[mine], __atomic_load_n(&all[place], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
		place = (uint32_t)mine;
	} else {
		place = SOSC_GATES - 1;
	}
	use(&all[place]);
}

/** Return the gate of a process that has none yet, which is a forked child. */
uint32_t *sosc_gate_slow(struct sosc_cell *cell)
{
	uint64_t gate;

	if (sosc_is_quiet())
		__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
	gate = __atomic_load_n(sosc_gate, __ATOMIC_ACQUIRE);
	return gate ? (uint32_t *)gate : &closed_for_ever;
}

/** Return @gated if the session has gates, else @handler. See SOSC_GATED. */
uint64_t sosc_gated(uint64_t handler, uint64_t gated)
{
	return gates() ? gated : handler;
}

// ---- the instruments ---------------------------------------------------------------

static void note(enum sosc_instrument_kind kind, uint32_t open)
{
	struct sosc_trigger *trigger = sosc_own(kind, sizeof(*trigger));
	uint64_t gate = __atomic_load_n(sosc_gate, __ATOMIC_ACQUIRE), unseen = 0;

	if (gate)
		__atomic_store_n((uint32_t *)gate, open, __ATOMIC_RELAXED);
	if (!trigger)
		return;
	if (!sosc_clock_off)
		(void)__atomic_compare_exchange_n(&trigger->tsc, &unseen, sosc_ticks(), false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	__atomic_fetch_add(&trigger->calls, 1, __ATOMIC_RELEASE);
}

static enum sosc_next open(struct sosc_call *call)
{
	(void)call;
	note(SOSC_INSTRUMENT_OPEN, 1);
	return SOSC_GO_ON;
}

static enum sosc_next close(struct sosc_call *call)
{
	(void)call;
	note(SOSC_INSTRUMENT_CLOSE, 0);
	return SOSC_GO_ON;
}

void sosc_instrument_open(struct sosc_instrument *instrument)
{
	instrument->entry = open;
}

void sosc_instrument_close(struct sosc_instrument *instrument)
{
	instrument->entry = close;
}
