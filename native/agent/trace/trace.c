// SPDX-License-Identifier: Apache-2.0
// Records of entries and exits. The assembly writes the records of plain calls. This file writes
// the records of calls with a capture program.

#include "trace/trace.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/signals.h"
#include "call/cell.h"
#include "call/cost.h"
#include "call/gate.h"
#include "call/handler.h"
#include "call/site.h"
#include "hook/select.h"
#include "image/namespace.h"
#include "ring/chunk.h"
#include "ring/delay.h"
#include "ring/ring.h"
#include "stack/callstack.h"
#include "stack/walk.h"
#include "thread/park.h"
#include "thread/thread.h"
#include "thread/work.h"
#include "trace/capture.h"

// Returns the capture program at an offset in SEC_FUNCTIONS. The offset is in a struct
// sosc_function of the session. It is read after the section's address: if that is the next
// session's already, the struct is unmapped and reads as zeros.
static const struct sosc_op *program(const struct sosc_cell *cell, const uint32_t *offset)
{
	static const struct sosc_op nothing = {.op = SOSC_OP_END};
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);
	const struct sosc_plan *plan =
		sosc_plan_in(session, sosc_layers[sosc_cell_index(cell)].instrument);
	const uint8_t *functions = (const uint8_t *)session->control;
	uint32_t place;

	if (!plan)
		return &nothing;
	functions += session->section[SOSC_SEC_FUNCTIONS].offset + plan->functions;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	place = __atomic_load_n(offset, __ATOMIC_RELAXED);
	return place ? (const void *)(functions + place) : &nothing;
}

// Collects the words of the entry that an exit program needs, in the order of its ops: registers,
// and with SOSC_KEPT_INT added the ints to which they point.
static uint32_t wanted(const struct sosc_op *at, uint8_t kept[SOSC_KEPT_MAX])
{
	uint32_t count = 0;

	for (;; at++) {
		const struct sosc_op now = sosc_program_word(at).op, *op = &now;
		bool sized = op->length != SOSC_LENGTH_LIMIT && op->length != SOSC_LENGTH_RESULT;
		bool is_at = op->length == SOSC_LENGTH_AT &&
			     op->length_arg < SOSC_REGISTER_ARGUMENTS;
		uint8_t named[3] = {op->arg, sized ? op->length_arg : SOSC_ARG_RESULT,
				    is_at ? SOSC_KEPT_INT + op->length_arg : SOSC_ARG_RESULT};

		if (op->op == SOSC_OP_END)
			break;
		if (op->op == SOSC_OP_WHEN)
			at += op->limit;
		if (op->op == SOSC_OP_FLOAT || op->op == SOSC_OP_VECTOR)
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
	uint64_t word;
	uint32_t value;

	if (kept < SOSC_KEPT_INT)
		return capture->words[kept];
	if (kept >= SOSC_ARG_STACK)
		return sosc_capture_word(capture, kept, &word) ? word : 0;
	// If the int cannot be read, use the length 0: nothing is shown at the exit.
	return sosc_capture_int(capture, capture->words[kept - SOSC_KEPT_INT], &value) ? value : 0;
}

// Keeps the words that the exit program will need until the exit, two in each place. The places of
// one call differ in the low bits of their `cell`.
static void park(struct sosc_thread *thread, struct sosc_cell *cell,
		 const struct sosc_function *function, const struct sosc_capture *capture)
{
	uint64_t sp = (uint64_t)&capture->regs->ret;
	bool tail_called = sosc_is_tail_called(capture->regs->ret, cell);
	uint8_t kept[SOSC_KEPT_MAX];
	uint32_t count = wanted(program(cell, &function->exit_program), kept);

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

// Takes back the words that park() has kept.
static void take(struct sosc_thread *thread, const struct sosc_site *site,
		 const struct sosc_function *function, struct sosc_capture *capture)
{
	uint64_t sp = (uint64_t)&capture->regs->ret;
	uint8_t kept[SOSC_KEPT_MAX];
	uint32_t count = wanted(program((void *)site->cell, &function->exit_program), kept);

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
		if (kept[i] >= SOSC_ARG_STACK) {
			capture->stack_args[capture->stack_count] = kept[i];
			capture->stack_words[capture->stack_count++] = word;
		} else {
			if (kept[i] < SOSC_KEPT_INT)
				capture->words[kept[i]] = word;
			else
				capture->before[kept[i] - SOSC_KEPT_INT] = (uint32_t)word;
			capture->known |= (uint16_t)(1 << kept[i]);
		}
		if (!(site->flags & SITE_FLAG_TWICE) && (i & 1 || i + 1 == count))
			parked->sp = 0;
	}
}

static int32_t errno_of(uint32_t ns)
{
	return (int32_t)sosc_thread_word(sosc_errno_offsets[ns]);
}

// Reserves units for what was measured, and determines which process owns them.
static uint64_t reserve(struct sosc_capture *capture, struct sosc_thread *thread,
			enum sosc_loss loss)
{
	uint32_t process = sosc_process();
	uint64_t unit;

	unit = sosc_ring_reserve(thread, capture->total, loss);
	capture->process = process;
	// A signal handler has forked meanwhile, before or after the reservation. If it was after,
	// the parent has taken the units, and the chunk may be ours by now.
	if (unit && sosc_process() != process &&
	    __atomic_load_n(&thread->pos, __ATOMIC_RELAXED) == unit + capture->total &&
	    sosc_ring_is_ours(NULL, thread, unit))
		capture->process = sosc_process();
	return unit;
}

// Writes the reserved units of an entry. Returns the same as sosc_record_entry.
static uint64_t write_entry(struct sosc_entry *unit, struct sosc_regs *regs,
			    struct sosc_thread *thread, struct sosc_cell *cell, uint64_t site,
			    uint64_t target, struct sosc_capture *capture)
{
	uint32_t index = sosc_cell_index(cell), commit = 0;
	const struct sosc_function *function = sosc_layers[index].function;
	uint64_t end = (uint64_t)unit + capture->total, now, start;

	if (!sosc_capture_write(capture, (struct sosc_data *)(unit + 1)))
		return site ? site : target;
	if (site && function->flags & SOSC_FN_EXIT_PROGRAM && function->exit_words)
		park(thread, cell, function, capture);
	unit->sp = (uint32_t)(uint64_t)&regs->ret;
	unit->arg0 = *sosc_argument(regs, 0);
	if (site)
		commit = ((struct sosc_site *)(site + SOSC_DISTANCE))->open;
	now = sosc_ticks();
	if (now && sosc_is_long(thread->last, now))
		now = sosc_delay_at_entry(NULL, thread);
	else
		thread->last = now;
	start = now - sosc_tsc_start;
	if (!now || start >> SOSC_START_BITS)
		commit = 0;
	if (commit && __atomic_load_n(&thread->pos, __ATOMIC_RELAXED) != end) {
		// a signal handler has recorded something, or forked: then an exit may have changed
		// the unit
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
	commit = (uint32_t)(site || !target ? SOSC_UNIT_ENTRY : SOSC_UNIT_ENTRY_ONLY) << 28 | index;
	__atomic_store_n(&unit->commit, commit, __ATOMIC_RELEASE);
	if (!target)
		return commit;
	return site ? site : target;
}

struct record_cost { // ticks for an empty call
	uint64_t least, usual;
};

// Ticks that a call takes besides the work of record(): the path to it, and the exit.
static uint64_t way;

// Does the work of sosc_record_entry. @fp, not NULL: the call stack is wanted, and *fp is the
// caller's frame pointer, if it has one.
static __attribute__((noinline)) uint64_t record(struct sosc_regs *regs,
						 const struct sosc_injected *injected,
						 const uint64_t *fp, union sosc_wide *wide)
{
	struct sosc_cell *cell = sosc_entered_by(regs);
	uint32_t index = sosc_cell_index(cell);
	const struct sosc_function *function = sosc_layers[index].function;
	bool returns = injected && injected->flags & SOSC_INJECT_RETURN;
	uint64_t site = 0, target = returns ? 0 : cell->original, before;
	bool are_held;
	struct sosc_thread *thread = sosc_thread_self();
	static const struct sosc_op six[] = {{.op = SOSC_OP_WORDS, .arg = SOSC_REGISTER_ARGUMENTS},
					     {.op = SOSC_OP_END}};
	const struct sosc_op *ops = function->flags & SOSC_FN_SIX ? six : &six[1];
	struct sosc_capture capture;
	struct sosc_entry *unit;
	uint64_t start;
	uint32_t stack;

	if (!thread)
		thread = sosc_thread_slow(cell); // this counts calls of threads without a place
	if (!thread)
		return target;
	start = sosc_cost_work(thread);
	if (fp && !sosc_call_stack(thread, regs, *fp, &stack))
		return target;
	capture.regs = regs;
	capture.thread = thread;
	capture.wide = wide;
	capture.at_exit = false;
	capture.of_libc = sosc_layers[index].of_libc;
	capture.count = capture.copied = 0;
	if (!returns &&
	    !(sosc_cell_is_free(index) && sosc_slot(index)->flags & SOSC_SLOT_ENTRY_ONLY))
		site = sosc_site_find(regs->ret, cell);
	if (function->flags & SOSC_FN_PROGRAM)
		ops = program(cell, &function->entry_program);
	if (fp || injected || (function->flags & SOSC_FN_EXIT_PROGRAM && function->exit_words) ||
	    !sosc_capture_strings(&capture, ops)) {
		capture.known = SOSC_KEPT_ALL;
		sosc_arguments(regs, capture.words);
		capture.error = errno_of(sosc_layers[index].ns);
		if (fp)
			sosc_capture_add(&capture, (struct sosc_item){.from = (uint64_t)&stack,
								      .size = sizeof(stack),
								      .kind = SOSC_DATA_BYTES,
								      .item = SOSC_ITEM_STACK});
		sosc_capture_measure(&capture, ops);
		if (injected)
			sosc_capture_add(&capture, (struct sosc_item){.from = (uint64_t)injected,
								      .size = sizeof(*injected),
								      .kind = SOSC_DATA_BYTES,
								      .item = SOSC_ITEM_INJECTED});
		sosc_capture_total(&capture);
	}
	unit = (void *)reserve(&capture, thread, SOSC_LOSS_ENTRY);
	if (!unit)
		return target;
	are_held = capture.is_long && sosc_signals_hold(sosc_is_sealed(thread), &before);
	target = write_entry(unit, regs, thread, cell, site, target, &capture);
	if (are_held)
		sosc_signals_release(&before);
	sosc_cost_worked(thread, start, capture.total / SOSC_UNIT, way);
	return target;
}

static __attribute__((noinline)) uint64_t record_wide(struct sosc_regs *regs,
						      const struct sosc_injected *injected,
						      const uint64_t *fp)
{
	union sosc_wide wide;

	return record(regs, injected, fp, &wide);
}

static inline uint64_t record_entry(struct sosc_regs *regs, const struct sosc_injected *injected,
				    const uint64_t *fp)
{
	const struct sosc_cell *cell = sosc_entered_by(regs);

	if (sosc_layers[sosc_cell_index(cell)].function->flags & SOSC_FN_WIDE)
		return record_wide(regs, injected, fp);
	return record(regs, injected, fp, NULL);
}

/**
 * Record the entry of a call. Return where to go on: the return trampoline, or the function itself
 * if no exit is to be seen. @injected, if not NULL, is kept with the entry. If it tells that the
 * function is not called, the caller records an exit at once; the result is 0 if there is no room
 * for the entry.
 */
uint64_t sosc_record_entry(struct sosc_regs *regs, const struct sosc_injected *injected)
{
	return record_entry(regs, injected, NULL);
}

/** Record the entry of a call with a capture program, for the assembly. */
uint64_t sosc_trace_entry(struct sosc_regs *regs)
{
	return record_entry(regs, NULL, NULL);
}

/** Record the entry of a call whose stack is wanted. */
uint64_t sosc_trace_entry_stack(struct sosc_regs *regs, uint64_t fp)
{
	return record_entry(regs, NULL, &fp);
}

static void write_exit(struct sosc_exit *unit, struct sosc_regs *regs, uint64_t tsc, int32_t error,
		       uint32_t index)
{
	unit->sp = (uint32_t)(uint64_t)&regs->ret;
	unit->tsc = tsc;
	unit->result = *sosc_result(regs);
	unit->errno_value = (uint32_t)error;
	unit->reserved = 0;
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_EXIT << 28 | index, __ATOMIC_RELEASE);
}

/** Record the result of a call of @cell that was given without calling the function. */
void sosc_record_result(struct sosc_regs *regs, const struct sosc_cell *cell, int32_t error)
{
	uint64_t tsc = sosc_ticks();
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_exit *unit = NULL;

	if (thread)
		unit = (void *)sosc_ring_reserve(thread, SOSC_UNIT, SOSC_LOSS_EXIT);
	if (unit)
		write_exit(unit, regs, tsc, error, sosc_cell_index(cell));
}

/** Record the exit of a call: its result, and what its capture program keeps. */
void sosc_record_exit(struct sosc_regs *regs)
{
	uint64_t now = sosc_ticks(), tsc;
	struct sosc_site *site = sosc_returned_to(regs);
	struct sosc_cell *cell = (void *)site->cell;
	uint32_t index = sosc_cell_index(cell);
	const struct sosc_function *function = sosc_layers[index].function;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_capture capture;
	struct sosc_exit *unit;
	uint64_t before, start;
	bool are_held;

	capture.error = errno_of(site->ns);
	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (site->flags & SITE_FLAG_OLD)
		return;
	if (!thread) {
		if (!sosc_quiet)
			__atomic_fetch_add(&sosc_control->dropped_exits, 1, __ATOMIC_RELAXED);
		return;
	}
	start = sosc_cost_work(thread);
	tsc = now ? sosc_delay_at_exit(thread, now) : 0;
	capture.regs = regs;
	capture.thread = thread;
	capture.at_exit = true;
	capture.of_libc = sosc_layers[index].of_libc;
	capture.count = capture.copied = 0;
	capture.result = *sosc_result(regs);
	capture.known = 0;
	capture.stack_count = 0;
	take(thread, site, function, &capture);
	sosc_capture_measure(&capture, program(cell, &function->exit_program));
	sosc_capture_total(&capture);
	unit = (void *)reserve(&capture, thread, SOSC_LOSS_EXIT);
	if (!unit)
		return;
	are_held = capture.is_long && sosc_signals_hold(sosc_is_sealed(thread), &before);
	if (sosc_capture_write(&capture, (struct sosc_data *)(unit + 1)))
		write_exit(unit, regs, tsc, capture.error, index);
	if (are_held)
		sosc_signals_release(&before);
	sosc_cost_worked(thread, start, capture.total / SOSC_UNIT, 0);
}

/** The same, called from assembly. */
void sosc_trace_exit(struct sosc_regs *regs)
{
	sosc_record_exit(regs);
}

static uint64_t handler(const struct sosc_chosen *chosen, bool entry_only)
{
	const struct sosc_function *function = chosen->function;
	bool six = function->flags & SOSC_FN_SIX;

	if (sosc_session->plan[chosen->plan].flags & SOSC_PLAN_STACKS)
		return SOSC_GATED(sosc_h_stack);
	if (function->flags & SOSC_FN_PROGRAM ||
	    (function->flags & SOSC_FN_EXIT_PROGRAM && function->exit_words))
		return SOSC_GATED(sosc_h_program);
	if (entry_only)
		return six ? SOSC_GATED(sosc_h_entry_six) : SOSC_GATED(sosc_h_entry);
	return six ? SOSC_GATED(sosc_h_call_six) : SOSC_GATED(sosc_h_call);
}

// Subtracts the work that record() has timed from the last round, and clears these counts.
static void less_work(struct sosc_cost *cost, bool apart)
{
	struct sosc_control *control = sosc_control;

	if (control->works)
		sosc_cost_less(cost, apart, control->took_works / control->works);
	control->works = control->took_works = control->work_units = 0;
}

// Measures what recording an empty call by @handler costs its caller, at least and usually. A call
// stack costs more, depending on its depth.
static struct record_cost measure(struct sosc_thread *thread, uint64_t handler)
{
	const uint64_t before = thread->pos, units = sosc_cost_units();
	struct record_cost ticks = {};
	struct sosc_cost cost;

	if (!sosc_cost_begin(&cost, SOSC_INSTRUMENT_TRACE, handler))
		return ticks;
	for (int round = 0; round < 2 * COST_ROUNDS; round++) {
		thread->pos = units;
		sosc_cost_round(&cost, round & 1);
		less_work(&cost, round & 1);
		memset((void *)units, 0, COST_UNITS);
	}
	thread->pos = before;
	ticks.least = sosc_cost_end(&cost);
	ticks.usual = sosc_cost_usual(&cost);
	return ticks;
}

static void start(void)
{
	static struct record_cost known[2];
	const struct sosc_plan *plan = sosc_plan_in(sosc_session, SOSC_INSTRUMENT_TRACE);
	const bool entry_only = plan && plan->flags & SOSC_PLAN_ENTRY_ONLY;
	struct sosc_thread *thread = sosc_thread_self();

	// not written if no session keeps stacks, because nothing else uses its page
	if (sosc_stacks_kept)
		sosc_stacks_kept = false;
	if (plan && plan->flags & SOSC_PLAN_STACKS)
		sosc_call_stacks_start();
	if (!plan || !thread)
		return;
	if (!known[entry_only].least)
		known[entry_only] =
			measure(thread, (uint64_t)(entry_only ? sosc_h_entry : sosc_h_call));
	if (!way)
		way = measure(thread, (uint64_t)sosc_h_program).usual;
	if (!sosc_holds(SOSC_INSTRUMENT_STATS)) { // STATS corrects times by its own cost
		sosc_control->cost_outer = (uint32_t)known[entry_only].least;
		sosc_control->cost_call = (uint32_t)known[entry_only].usual;
	}
}

void sosc_instrument_trace(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_IDS | SOSC_NEEDS_CLOCK | SOSC_NEEDS_PARKED;
	instrument->handler = handler;
	instrument->exit_handler = (uint64_t)sosc_x_call;
	instrument->start = start;
	instrument->forked = sosc_stacks_forked;
}
