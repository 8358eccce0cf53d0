// SPDX-License-Identifier: Apache-2.0
// A call is one unit in the log, which is written when the call ends. So if there is no room for a
// unit, the loss is one whole call, and is counted as one. Calls whose return cannot be observed
// are written when they begin.
//
// The ring may make its thread wait, and signal handlers may run meanwhile. So a frame is released
// before its unit is written.

#include "prof/log.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "call/handler.h"
#include "call/site.h"
#include "ring/delay.h"
#include "ring/ring.h"
#include "thread/thread.h"

static void write(const struct sosc_reported *call)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint32_t process = sosc_process();
	struct sosc_reported *unit;

	if (!thread && !sosc_quiet)
		__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_THREADS], 1, __ATOMIC_RELAXED);
	unit = thread ? (void *)sosc_ring_reserve(thread, SOSC_UNIT, SOSC_LOSS_ENTRY) : NULL;
	if (sosc_quiet)
		sosc_prof_mute();
	if (!unit)
		return;
	if (sosc_process() != process) { // a signal handler has forked: the parent writes the unit
		(void)sosc_ring_unneeded(NULL, thread, (uint64_t)unit);
		return;
	}
	unit->ticks = call->ticks;
	unit->start = call->start;
	unit->function = call->function;
	unit->around = call->around;
	__atomic_store_n(&unit->commit, call->commit, __ATOMIC_RELEASE);
}

/** The call that was open in @frame, which is released, has ended at @now. */
void sosc_prof_log(const struct sosc_prof_frame *frame, uint64_t now, uint32_t flags)
{
	uint64_t ticks = now > frame->start ? now - frame->start : 0;
	struct sosc_reported call = {
		.ticks = (uint32_t)ticks,
		.start = frame->start,
		.function = frame->function,
		.around = frame->key,
	};

	call.commit = frame->commit | flags | (uint32_t)(ticks >> 32) << SOSC_REPORTED_TICKS;
	write(&call);
}

// Returns the first word of the unit of @call. @around is the call around it, or NULL.
static uint32_t commit_of(const struct sosc_prof_call *call, const struct sosc_prof_frame *around)
{
	return (uint32_t)SOSC_UNIT_REPORTED << 28 | (around ? 0 : SOSC_REPORTED_ROOT) | call->hook;
}

static uint64_t around_of(const struct sosc_prof_call *call, const struct sosc_prof_frame *around)
{
	uint64_t from = around ? 0 : sosc_site_returns_to(call->from);

	return around ? around->start : from ? from : call->from;
}

static void write_unseen(const struct sosc_prof_call *call, const struct sosc_prof_frame *around)
{
	struct sosc_reported unit = {
		.start = sosc_ticks(),
		.function = call->function,
		.around = around_of(call, around),
		.commit = commit_of(call, around) | SOSC_REPORTED_UNSEEN,
	};

	write(&unit);
}

static const struct sosc_prof_frame *settle(struct sosc_prof_thread *thread,
					    struct sosc_prof_table *table,
					    const struct sosc_prof_call *call)
{
	if (thread->next == sosc_prof_frames(table))
		return NULL;
	return sosc_prof_settle(thread, table, call);
}

// Opens a call. It counts as begun when its stack address is set. Returns NULL if there is no room.
static struct sosc_prof_frame *take(struct sosc_prof_thread *thread, struct sosc_prof_table *table,
				    const struct sosc_prof_call *call,
				    const struct sosc_prof_frame *around)
{
	struct sosc_prof_frame *frame = __atomic_load_n(&thread->next, __ATOMIC_RELAXED);

	if (!frame)
		return NULL;
	if (frame - sosc_prof_frames(table) >= SOSC_PROF_FRAMES - 1) {
		sosc_local_increment(&table->deep);
		return NULL;
	}
	__atomic_store_n(&thread->next, frame + 1, __ATOMIC_RELEASE);
	frame->site = call->site;
	frame->from = call->from;
	frame->function = call->function;
	frame->key = around_of(call, around);
	frame->commit = commit_of(call, around);
	frame->flags = SOSC_PROF_FRAME_TIMED;
	return frame;
}

// Returns the time, for a thread to which nothing was reported since table->last. A unit in the log
// tells how much of that time the thread has waited for a processor.
static uint64_t time_after(const struct sosc_prof_table *table)
{
	uint64_t now = sosc_ticks();

	if (!sosc_is_long(table->last, now))
		return now;
	(void)sosc_delay_of_prof(table->last);
	return sosc_ticks();
}

/** Begin the call of @frame: all but the clock and @place is set. Called from assembly. */
void sosc_prof_log_begin_late(struct sosc_prof_table *table, struct sosc_prof_frame *frame,
			      uint64_t place)
{
	table->last = frame->start = time_after(table);
	__atomic_store_n(&frame->place, place, __ATOMIC_RELEASE);
}

// The clock is read last, except for the place, which makes the frame visible to signal handlers:
// they need to know when it began.
static void begin(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t sp)
{
	sosc_prof_log_begin_late(table, frame, ~sp);
}

/** __cyg_profile_func_enter */
void sosc_prof_log_enter(uint64_t function, uint64_t from, uint64_t site, uint64_t sp)
{
	struct sosc_prof_thread *thread = sosc_prof_self();
	struct sosc_prof_call call = {
		.function = function, .site = site, .from = from, .sp = sp, .hook = SOSC_PROF_CYG};
	struct sosc_prof_table *table = sosc_prof_table_of(thread);
	const struct sosc_prof_frame *around;
	struct sosc_prof_frame *frame;

	if (!thread)
		return;
	if (!table || sosc_clock_off) {
		write_unseen(&call, NULL);
		return;
	}
	around = settle(thread, table, &call);
	frame = take(thread, table, &call, around);
	if (frame)
		begin(table, frame, sp);
	else
		write_unseen(&call, around);
}

// The call of @frame has ended. @frame is NULL if the call is not open.
static void end(struct sosc_prof_thread *thread, struct sosc_prof_table *table,
		struct sosc_prof_frame *frame, uint64_t now)
{
	struct sosc_prof_frame call;

	if (!frame) {
		if (!sosc_clock_off)
			sosc_local_increment(&table->unpaired);
		return;
	}
	if (!now || sosc_is_long(table->last, now))
		now = time_after(table);
	call = *frame;
	if (!sosc_local_swap(&frame->place, call.place, PROF_RETURNED))
		return; // a signal handler has ended it already
	table->last = now;
	sosc_prof_pop(thread, frame);
	sosc_prof_log(&call, now, 0);
}

/** __cyg_profile_func_exit. @now is 0 if the clock was not read. */
void sosc_prof_log_exit(uint64_t function, uint64_t from, uint64_t sp, uint64_t now)
{
	struct sosc_prof_thread *thread = sosc_prof_self();
	struct sosc_prof_table *table = sosc_prof_table_of(thread);

	if (table)
		end(thread, table, sosc_prof_find(thread, table, function, from, sp), now);
}

/**
 * mcount or __fentry__: if the function's return can be observed, the function will return to a
 * trampoline.
 */
void sosc_prof_log_called(uint64_t site, uint64_t *slot, struct sosc_cell *cell, uint32_t hook)
{
	struct sosc_prof_thread *thread = sosc_prof_self();
	struct sosc_prof_call call = {.function = site, .site = site, .hook = hook};
	struct sosc_prof_table *table = sosc_prof_table_of(thread);
	const struct sosc_prof_frame *around;
	struct sosc_prof_frame *frame;
	uint64_t at, code = 0;

	slot = sosc_prof_return_slot(hook, site, slot);
	call.sp = (uint64_t)slot;
	call.from = *slot;
	if (!thread)
		return;
	if (!table || sosc_clock_off) {
		write_unseen(&call, NULL);
		return;
	}
	around = settle(thread, table, &call);
	at = sosc_prof_find_node(table, SOSC_PROF_NO_CALLER, &call);
	// if the function has no node, its code has not been examined
	if (at && sosc_prof_sees_exits &&
	    !(sosc_prof_node_at(table, at)->flags & SOSC_PROF_NODE_UNSEEN))
		code = sosc_site_find(call.from, cell);
	frame = code ? take(thread, table, &call, around) : NULL;
	if (!frame) {
		write_unseen(&call, around);
		return;
	}
	*slot = code + SITE_RETURNS;
	begin(table, frame, call.sp);
}

/** A function has returned to the trampoline at @code. Its return address was at @sp. */
void sosc_prof_log_returned(uint64_t code, uint64_t sp, uint64_t now)
{
	const struct sosc_site *site = (const void *)(code + SOSC_DISTANCE);
	struct sosc_prof_thread *thread = sosc_prof ? sosc_prof_self() : NULL;
	struct sosc_prof_table *table = sosc_prof_table_of(thread);

	if (table && !(site->flags & SITE_FLAG_OLD))
		end(thread, table, sosc_prof_find(thread, table, 0, site->ret, sp), now);
}

/** __cyg_profile_func_enter_bare, which does not tell the caller. */
void sosc_prof_log_bare(uint64_t site)
{
	struct sosc_prof_call call = {.function = site, .site = site, .hook = SOSC_PROF_BARE};

	if (sosc_prof_self())
		write_unseen(&call, NULL);
}
