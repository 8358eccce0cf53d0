// SPDX-License-Identifier: Apache-2.0
// What handlers in assembly leave to C: everything for instruments that have no such handlers, and
// looking for threads and room in the ring.

#include "base/arch.h"
#include "base/instrument.h"
#include "call/cell.h"
#include "call/handler.h"
#include "call/site.h"
#include "ring/ring.h"
#include "thread/thread.h"

/** Return the exit handler for return trampolines of instrument @kind. */
uint64_t sosc_exit_handler_of(enum sosc_instrument_kind kind)
{
	uint64_t handler = sosc_instruments[kind].exit_handler;

	if (!sosc_holds(kind)) // only calls of an earlier session return through these trampolines
		return (uint64_t)sosc_x_plain;
	return handler ? handler : (uint64_t)sosc_x_layer;
}

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

// The functions of ENTRY_ONLY slots must not return through a trampoline, whatever the instrument
// asks for.
static bool comes_back(const struct sosc_call *call)
{
	return call->layer->instrument == SOSC_INSTRUMENT_GUARD ||
	       !(sosc_slot(call->cell)->flags & SOSC_SLOT_ENTRY_ONLY);
}

/**
 * Handle an entry. Return the address where the call goes on. @number is the number of the call, if
 * the assembly has counted it, else 0.
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

/** The same, for a call that the assembly has not counted. */
uint64_t sosc_layer_entry(struct sosc_regs *regs)
{
	return sosc_layer_entry_counted(regs, 0);
}

/** Handle an exit: the call has returned. */
void sosc_layer_exit(struct sosc_regs *regs)
{
	struct sosc_site *site = sosc_returned_to(regs);
	struct sosc_cell *cell = (void *)site->cell;
	struct sosc_call call;

	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (!(site->flags & SITE_FLAG_OLD) && describe(&call, cell, regs))
		sosc_instruments[call.layer->instrument].exit(&call);
}

// ---- threads, and room in the ring -----------------------------------------------

// In a child that is not followed, and after the recording has ended: reduce this slot to one jump.
static void mute(struct sosc_cell *cell)
{
	__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
}

struct sosc_thread *sosc_thread_slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();

	if (thread)
		return thread;
	if (sosc_quiet)
		mute(cell);
	else if (sosc_layers[sosc_cell_index(cell)].instrument == SOSC_INSTRUMENT_TRACE)
		__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_THREADS], 1, __ATOMIC_RELAXED);
	return NULL;
}

struct sosc_thread *sosc_thread_slow_exit(struct sosc_site *site)
{
	struct sosc_thread *thread = sosc_thread_self();

	(void)site;
	if (!thread && !sosc_quiet)
		__atomic_fetch_add(&sosc_control->dropped_exits, 1, __ATOMIC_RELAXED);
	return thread;
}

uint64_t sosc_ring_slow_entry(struct sosc_cell *cell, struct sosc_thread *thread, uint32_t bytes)
{
	uint64_t unit = sosc_ring_reserve(thread, bytes, SOSC_LOSS_ENTRY);

	if (!unit && sosc_quiet)
		mute(cell);
	return unit;
}

uint64_t sosc_ring_slow_exit(struct sosc_site *site, struct sosc_thread *thread, uint32_t bytes)
{
	(void)site;
	return sosc_ring_reserve(thread, bytes, SOSC_LOSS_EXIT);
}
