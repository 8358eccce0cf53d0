// SPDX-License-Identifier: Apache-2.0
// Records of entries and exits. The assembly writes those of plain calls; here are those
// with a capture program.

#include "arch.h"
#include "capture.h"
#include "cell.h"
#include "clock.h"
#include "handler.h"
#include "instrument.h"
#include "namespace.h"
#include "park.h"
#include "ring.h"
#include "select.h"
#include "site.h"
#include "thread.h"

// The program whose place in SEC_FUNCTIONS is said in a struct sosc_function: read after
// the section's own, which may be that of the next session, where the struct is zeros.
static const struct sosc_op *program(const uint32_t *offset)
{
	static const struct sosc_op nothing = {.op = SOSC_OP_END};
	const struct sosc_control *control = __atomic_load_n(&sosc_control, __ATOMIC_RELAXED);
	const struct sosc_plan *plan = sosc_plan_in(control, SOSC_INSTRUMENT_TRACE);
	const uint8_t *functions = (const uint8_t *)control;
	uint32_t place;

	if (!plan)
		return &nothing;
	functions += control->section[SOSC_SEC_FUNCTIONS].offset + plan->functions;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	place = __atomic_load_n(offset, __ATOMIC_RELAXED);
	return place ? (const void *)(functions + place) : &nothing;
}

// What an exit program asks for of the entry, in the order of its ops: registers, and with
// SOSC_KEPT_INT added the ints that they lead to.
static uint32_t wanted(const struct sosc_op *op, uint8_t kept[SOSC_KEPT_MAX])
{
	uint32_t count = 0;

	for (; op->op != SOSC_OP_END; op++) {
		bool sized = op->length != SOSC_LENGTH_LIMIT && op->length != SOSC_LENGTH_RESULT;
		uint8_t named[3] = {op->arg, sized ? op->length_arg : SOSC_ARG_RESULT,
				    op->length == SOSC_LENGTH_AT ? SOSC_KEPT_INT + op->length_arg :
								   SOSC_ARG_RESULT};

		if (op->op == SOSC_OP_FLOAT)
			continue;
		for (int i = 0; i < 3; i++) {
			bool known = named[i] == SOSC_ARG_RESULT;

			for (uint32_t k = 0; k < count; k++)
				known |= kept[k] == named[i];
			if (!known && count < SOSC_KEPT_MAX)
				kept[count++] = named[i];
		}
	}
	return count;
}

static uint64_t kept_word(const struct sosc_capture *capture, uint8_t kept)
{
	uint32_t value;

	if (kept < SOSC_KEPT_INT)
		return capture->words[kept];
	// What cannot be read is no length: nothing is shown at the exit.
	return sosc_capture_int(capture, capture->words[kept - SOSC_KEPT_INT], &value) ? value : 0;
}

// Keeps the words that the exit program will ask for, until the exit: two in a place. The
// places of one call differ in the low bits of their cell's address.
static void park(struct sosc_thread *thread, struct sosc_cell *cell,
		 const struct sosc_function *function, const struct sosc_capture *capture)
{
	uint64_t sp = (uint64_t)&capture->regs->ret;
	bool tail_called = sosc_is_tail_called(capture->regs->ret, cell);
	uint8_t kept[SOSC_KEPT_MAX];
	uint32_t count = wanted(program(&function->exit_program), kept);

	for (uint32_t i = 0; i < count; i += 2) {
		uint64_t key = (uint64_t)cell + i / 2;
		struct sosc_parked *parked = sosc_parked_find(thread, sp, key);

		if (!parked)
			parked = sosc_parked_place(thread, sp, cell, tail_called || i);
		if (!parked)
			return;
		parked->cell = key;
		parked->a = kept_word(capture, kept[i]);
		parked->b = i + 1 < count ? kept_word(capture, kept[i + 1]) : 0;
		parked->sp = sp;
	}
}

// Takes back what park() has kept.
static void take(struct sosc_thread *thread, const struct sosc_site *site,
		 const struct sosc_function *function, struct sosc_capture *capture)
{
	uint64_t sp = (uint64_t)&capture->regs->ret;
	uint8_t kept[SOSC_KEPT_MAX];
	uint32_t count = wanted(program(&function->exit_program), kept);

	for (uint32_t i = 0; i < count; i++) {
		struct sosc_parked *parked = sosc_parked_find(thread, sp, site->cell + i / 2);
		uint64_t word;

		if (!parked) {
			if (!(site->flags & SITE_FLAG_TWICE) && !sosc_thread_inherits(sp))
				__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_WORDS], 1,
						   __ATOMIC_RELAXED);
			return;
		}
		word = i & 1 ? parked->b : parked->a;
		if (kept[i] < SOSC_KEPT_INT)
			capture->words[kept[i]] = word;
		else
			capture->before[kept[i] - SOSC_KEPT_INT] = (uint32_t)word;
		capture->known |= (uint16_t)(1 << kept[i]);
		if (!(site->flags & SITE_FLAG_TWICE) && (i & 1 || i + 1 == count))
			parked->sp = 0;
	}
}

static int32_t errno_of(uint32_t ns)
{
	return (int32_t)sosc_thread_word(sosc_errno_offsets[ns]);
}

/**
 * The entry of a call with a capture program. Returns where to go on: the
 * return trampoline, or the function itself when no exit is to be seen.
 */
uint64_t sosc_trace_entry(struct sosc_regs *regs)
{
	struct sosc_cell *cell = sosc_entered_by(regs);
	uint32_t index = sosc_cell_index(cell);
	const struct sosc_function *function = sosc_layers[index].function;
	uint64_t site = 0, target = cell->original, start, end;
	uint32_t commit = 0;
	struct sosc_thread *thread = sosc_thread_slow(cell);
	struct sosc_capture capture;
	struct sosc_entry *unit;

	if (!thread)
		return target;
	capture.regs = regs;
	capture.thread = thread;
	capture.at_exit = false;
	capture.count = 0;
	capture.known = SOSC_KEPT_ALL;
	sosc_arguments(regs, capture.words);
	if (!(sosc_slot(index)->flags & SOSC_SLOT_ENTRY_ONLY))
		site = sosc_site_find(regs->ret, cell);
	capture.error = errno_of(sosc_layers[index].ns);
	if (function->flags & SOSC_FN_PROGRAM)
		sosc_capture_measure(&capture, program(&function->entry_program));
	unit = (void *)sosc_ring_reserve(thread, sosc_capture_total(&capture), SOSC_LOSS_ENTRY);
	if (!unit)
		return target;
	end = (uint64_t)unit + sosc_capture_total(&capture);
	sosc_capture_write(&capture, (struct sosc_data *)(unit + 1));
	if (site && function->flags & SOSC_FN_EXIT_PROGRAM && function->exit_words)
		park(thread, cell, function, &capture);
	unit->sp = (uint32_t)(uint64_t)&regs->ret;
	unit->arg0 = *sosc_argument(regs, 0);
	if (site)
		commit = ((struct sosc_site *)(site + SOSC_DISTANCE))->open;
	start = sosc_ticks() - sosc_tsc_start;
	if (sosc_clock_off || start >> SOSC_START_BITS)
		commit = 0;
	if (commit && __atomic_load_n(&thread->pos, __ATOMIC_RELAXED) != end) {
		// a signal handler has recorded, or forked: then an exit may have changed the unit
		if (!sosc_ring_is_ours(NULL, thread, (uint64_t)unit))
			return site;
		commit = 0;
	}
	if (commit) { // as in WRITE_OPEN
		unit->tsc |= start;
		__atomic_store_n(&unit->commit, unit->commit | commit, __ATOMIC_RELEASE);
		return site;
	}
	unit->return_addr = regs->ret;
	unit->tsc = sosc_ticks();
	commit = (uint32_t)(site ? SOSC_UNIT_ENTRY : SOSC_UNIT_ENTRY_ONLY) << 28 | index;
	__atomic_store_n(&unit->commit, commit, __ATOMIC_RELEASE);
	return site ? site : target;
}

void sosc_trace_exit(struct sosc_regs *regs)
{
	uint64_t tsc = sosc_ticks();
	struct sosc_site *site = sosc_returned_to(regs);
	struct sosc_cell *cell = (void *)site->cell;
	uint32_t index = sosc_cell_index(cell);
	const struct sosc_function *function = sosc_layers[index].function;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_capture capture;
	struct sosc_exit *unit;

	capture.error = errno_of(site->ns);
	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (site->flags & SITE_FLAG_OLD)
		return;
	if (!thread) {
		if (!sosc_quiet)
			__atomic_fetch_add(&sosc_control->dropped_exits, 1, __ATOMIC_RELAXED);
		return;
	}
	capture.regs = regs;
	capture.thread = thread;
	capture.at_exit = true;
	capture.count = 0;
	capture.result = *sosc_result(regs);
	capture.known = 0;
	take(thread, site, function, &capture);
	sosc_capture_measure(&capture, program(&function->exit_program));
	unit = (void *)sosc_ring_reserve(thread, sosc_capture_total(&capture), SOSC_LOSS_EXIT);
	if (!unit)
		return;
	sosc_capture_write(&capture, (struct sosc_data *)(unit + 1));
	unit->sp = (uint32_t)(uint64_t)&regs->ret;
	unit->tsc = tsc;
	unit->result = *sosc_result(regs);
	unit->errno_value = (uint32_t)capture.error;
	unit->reserved = 0;
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_EXIT << 28 | index, __ATOMIC_RELEASE);
}

static uint64_t handler(const struct sosc_chosen *chosen, bool entry_only)
{
	const struct sosc_function *function = chosen->function;
	bool six = function->flags & SOSC_FN_SIX;

	if (function->flags & SOSC_FN_PROGRAM ||
	    (function->flags & SOSC_FN_EXIT_PROGRAM && function->exit_words))
		return (uint64_t)sosc_h_program;
	if (entry_only)
		return (uint64_t)(six ? sosc_h_entry_six : sosc_h_entry);
	return (uint64_t)(six ? sosc_h_call_six : sosc_h_call);
}

void sosc_instrument_trace(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK | SOSC_NEEDS_PARKED;
	instrument->handler = handler;
	instrument->exit_handler = (uint64_t)sosc_x_call;
}
