// SPDX-License-Identifier: Apache-2.0
// The instruments of the session, and the calls whose handlers are in C.

#include "base/instrument.h"
#include "base/arch.h"
#include "call/cell.h"
#include "call/gate.h"
#include "call/handler.h"
#include "hook/select.h"
#include "base/session.h"
#include "call/site.h"
#include "thread/thread.h"

struct sosc_instrument sosc_instruments[SOSC_INSTRUMENT_KINDS];
uint32_t sosc_held;
uint32_t sosc_needs;

/** Fill in the table: it holds addresses, which no constant of ours can. */
void sosc_instruments_init(void)
{
#define SOSC_FILL_IN(name, file) sosc_instrument_##file(&sosc_instruments[SOSC_INSTRUMENT_##name]);
	SOSC_INSTRUMENTS(SOSC_FILL_IN)
#undef SOSC_FILL_IN
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

/** Whether calls of this session return through trampolines, those of guards aside. */
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

/** Have no call return through a trampoline. Before anything is hooked. */
void sosc_instruments_see_no_exits(void)
{
	if (!sosc_instruments_see_exits())
		return;
	sosc_session_see_no_exits();
	__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_NO_EXITS,
			  __ATOMIC_RELAXED);
}

/** A session begins: its instruments have their memory, and threads can be told. */
void sosc_instruments_start(void)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].start)
			sosc_instruments[kind].start();
}

/** Let the instruments that do so change the code of an image; false: it is past @until. */
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

/** This is a forked child; it goes on, or it is quiet. */
void sosc_instruments_forked(void)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++) {
		const struct sosc_instrument *each = &sosc_instruments[kind];
		void (*tell)(void) = sosc_quiet ? each->quiet : each->forked;

		if (sosc_holds(kind) && tell)
			tell();
	}
}

/** The session is over, see sosc_session_rest. */
void sosc_instruments_rest(void)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].quiet)
			sosc_instruments[kind].quiet();
}

/** An image is gone, and its code with it. */
void sosc_instruments_closed(const struct sosc_loaded *image)
{
	for (uint32_t kind = 0; kind < SOSC_INSTRUMENT_KINDS; kind++)
		if (sosc_holds(kind) && sosc_instruments[kind].closed)
			sosc_instruments[kind].closed(image);
}

/**
 * The instrument's own memory, if it has @size bytes at least; else NULL. It is shared with soscope
 * and with children: what soscope has said there is to be read in sosc_given.
 */
void *sosc_own(enum sosc_instrument_kind kind, uint64_t size)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);
	const struct sosc_plan *plan = session ? sosc_plan_in(session, kind) : NULL;

	return plan && plan->own.size >= size ? (uint8_t *)session->control + plan->own.offset :
						NULL;
}

/**
 * What soscope has given to the instrument, if that is @size bytes at least; else NULL. It stays
 * what it is when the session is over and the instrument's own memory reads as zeros.
 */
const void *sosc_given(enum sosc_instrument_kind kind, uint64_t size)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);
	const struct sosc_plan *plan = session ? sosc_plan_in(session, kind) : NULL;

	return plan && plan->given.size >= size ?
		       (const uint8_t *)session->control + plan->given.offset :
		       NULL;
}

uint64_t sosc_handler_of(const struct sosc_chosen *chosen, bool entry_only)
{
	const struct sosc_instrument *instrument =
		&sosc_instruments[sosc_session->plan[chosen->plan].instrument];

	return instrument->handler ? sosc_gated(instrument->handler(chosen, entry_only)) :
				     (uint64_t)sosc_h_layer;
}

/** Where exits go that return through trampolines of this instrument. */
uint64_t sosc_exit_handler_of(enum sosc_instrument_kind kind)
{
	uint64_t handler = sosc_instruments[kind].exit_handler;

	if (!sosc_holds(kind)) // calls of an earlier session alone return there
		return (uint64_t)sosc_x_plain;
	return handler ? handler : (uint64_t)sosc_x_layer;
}

// ---- handlers in C -----------------------------------------------------------

static bool describe(struct sosc_call *call, const struct sosc_cell *cell, struct sosc_regs *regs)
{
	const struct sosc_instrument *instrument;

	call->cell = sosc_cell_index(cell);
	call->layer = &sosc_layers[call->cell];
	instrument = &sosc_instruments[call->layer->instrument];
	if (sosc_is_quiet() && !(instrument->needs & SOSC_NEEDS_EVERY_CALL))
		return false;
	call->regs = regs;
	call->sp = (uint64_t)&regs->ret;
	call->thread = sosc_thread_self();
	return !call->thread || !call->thread->quiet || instrument->needs & SOSC_NEEDS_EVERY_CALL;
}

// A return trampoline would be in the way of these calls, whatever the instrument asks for.
static bool comes_back(const struct sosc_call *call)
{
	return call->layer->instrument == SOSC_INSTRUMENT_GUARD ||
	       !(sosc_slot(call->cell)->flags & SOSC_SLOT_ENTRY_ONLY);
}

/**
 * A call is coming; return where it goes on. @number is what the assembly has counted it as, 0:
 * it has not.
 */
uint64_t sosc_layer_entry_counted(struct sosc_regs *regs, uint64_t number)
{
	struct sosc_cell *cell = sosc_entered_by(regs);
	uint64_t original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE), site;
	struct sosc_call call;

	if (!describe(&call, cell, regs))
		return original;
	call.number = number;
	switch (sosc_instruments[call.layer->instrument].entry(&call)) {
	case SOSC_GO_ON_AND_COME_BACK:
		site = comes_back(&call) ? sosc_site_find(regs->ret, cell) : 0;
		return site ? site : original;
	case SOSC_RETURN_NOW:
		return (uint64_t)sosc_return_now;
	case SOSC_GO_TO:
		return call.target;
	default:
		return original;
	}
}

/** The same, of a call that nobody has counted. */
uint64_t sosc_layer_entry(struct sosc_regs *regs)
{
	return sosc_layer_entry_counted(regs, 0);
}

/** The call has returned. */
void sosc_layer_exit(struct sosc_regs *regs)
{
	struct sosc_site *site = sosc_returned_to(regs);
	struct sosc_cell *cell = (void *)site->cell;
	struct sosc_call call;

	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (!(site->flags & SITE_FLAG_OLD) && describe(&call, cell, regs))
		sosc_instruments[call.layer->instrument].exit(&call);
}
