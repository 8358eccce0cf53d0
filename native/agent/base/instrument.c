// SPDX-License-Identifier: Apache-2.0
// The instruments of the session, and how they are told what happens.

#include "base/instrument.h"
#include "base/session.h"

struct sosc_instrument sosc_instruments[SOSC_INSTRUMENT_KINDS];
struct sosc_language sosc_languages[SOSC_LANGUAGE_KINDS];
uint32_t sosc_held;
uint32_t sosc_needs;

/**
 * A session begins: find out which instruments it has and what they need. Their tables are filled
 * in already.
 */
void sosc_instruments_init(void)
{
	sosc_held = 1u << SOSC_INSTRUMENT_GUARD;
	sosc_needs = 0;
	for (uint32_t i = 0; i < sosc_session->plans; i++) {
		const struct sosc_plan *plan = &sosc_session->plan[i];
		uint32_t needs;

		if (plan->instrument >= SOSC_INSTRUMENT_KINDS)
			continue;
		needs = sosc_instruments[plan->instrument].needs;
		if (plan->flags & SOSC_PLAN_ENTRY_ONLY)
			needs &= ~(uint32_t)SOSC_NEEDS_PARKED;
		sosc_held |= 1u << plan->instrument;
		sosc_needs |= needs;
	}
}

/**
 * Return whether calls of this session return through trampolines, apart from calls of the guard.
 */
bool sosc_instruments_see_exits(void)
{
	for (uint32_t i = 0; i < sosc_session->plans; i++) {
		const struct sosc_plan *plan = &sosc_session->plan[i];
		const struct sosc_instrument *instrument;

		if (plan->instrument >= SOSC_INSTRUMENT_KINDS || plan->flags & SOSC_PLAN_ENTRY_ONLY)
			continue;
		instrument = &sosc_instruments[plan->instrument];
		if (instrument->exit || instrument->exit_handler)
			return true;
	}
	return false;
}

/** Let no call return through a trampoline. To be called before anything is hooked. */
void sosc_instruments_see_no_exits(void)
{
	if (!sosc_instruments_see_exits())
		return;
	sosc_session_see_no_exits();
	__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_NO_EXITS,
			  __ATOMIC_RELAXED);
}

/** A session begins. Its instruments have their memory, and threads can be identified. */
void sosc_instruments_start(void)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].start)
			sosc_instruments[kind].start();
}

/**
 * Let instruments change the code of an image. Return false if the time @until has passed before
 * all was done.
 */
bool sosc_instruments_code(struct sosc_hooking *work, uint64_t until)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].code &&
		    !sosc_instruments[kind].code(work, until))
			return false;
	return true;
}

void sosc_instruments_thread(struct sosc_thread *thread)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].thread)
			sosc_instruments[kind].thread(thread);
}

/** @thread continues as another thread, or its thread @has_ended. */
void sosc_instruments_part(struct sosc_thread *thread, bool has_ended)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].part)
			sosc_instruments[kind].part(thread, has_ended);
}

/** This is a forked child. It is recorded, or it @is_quiet. */
void sosc_instruments_forked(bool is_quiet)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++) {
		const struct sosc_instrument *each = &sosc_instruments[kind];
		void (*tell)(void) = is_quiet ? each->quiet : each->forked;

		if (sosc_holds(kind) && tell)
			tell();
	}
}

/** The session is over. See sosc_session_rest. */
void sosc_instruments_rest(void)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].quiet)
			sosc_instruments[kind].quiet();
}

/** An image was unloaded, and its code with it. */
void sosc_instruments_closed(const struct sosc_loaded *image)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].closed)
			sosc_instruments[kind].closed(image);
}

/**
 * Return the instrument's own memory, if it has at least @size bytes, else NULL. The memory is
 * shared with soscope and with children. What soscope tells the instrument is to be read from
 * sosc_given instead.
 */
void *sosc_own(enum sosc_instrument_kind kind, uint64_t size)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);
	const struct sosc_plan *plan = session ? sosc_plan_in(session, kind) : NULL;

	return plan && plan->own.size >= size ? (uint8_t *)session->control + plan->own.offset :
						NULL;
}

/**
 * Return what soscope has given to the instrument, if it has at least @size bytes, else NULL. It
 * keeps its contents after the session, when the instrument's own memory reads as zeros.
 */
const void *sosc_given(enum sosc_instrument_kind kind, uint64_t size)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);
	const struct sosc_plan *plan = session ? sosc_plan_in(session, kind) : NULL;

	return plan && plan->given.size >= size ?
		       (const uint8_t *)session->control + plan->given.offset :
		       NULL;
}
