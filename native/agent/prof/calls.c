// SPDX-License-Identifier: Apache-2.0
// Reported calls and returns: everything that the assembly does not do in a few instructions.

#include "base/clock.h"
#include "call/site.h"
#include "prof/prof.h"
#include "prof/times.h"
#include "ring/delay.h"
#include "thread/thread.h"

/** Find this thread. Returns the same as sosc_prof_thread_slow(). */
struct sosc_prof_thread *sosc_prof_self(void)
{
	uint64_t key = sosc_thread_pointer();
	uint32_t at = (uint32_t)(key >> 12) * THREAD_FACTOR >> (32 - THREAD_BITS); // as FIND_THREAD
	struct sosc_prof_thread *thread = &sosc_prof_threads[at];

	if (thread->key == key && thread->tid == sosc_thread_word(sosc_tid_offset))
		return thread;
	return sosc_prof_thread_slow();
}

/**
 * Return the table of a thread that has one of its own, otherwise NULL. The pointer is read only
 * once: if a signal handler forks meanwhile, the child finds its thread's entry wiped.
 */
struct sosc_prof_table *sosc_prof_table_of(const struct sosc_prof_thread *thread)
{
	struct sosc_prof_table *table = thread ? __atomic_load_n(&thread->table, __ATOMIC_RELAXED) :
						 NULL;

	return table == sosc_prof_shared ? NULL : table;
}

/**
 * Return the offset of a node, which may be a new one. Return 0 if there is no room for a new one.
 */
uint64_t sosc_prof_find_node(struct sosc_prof_table *table, uint64_t key,
			     const struct sosc_prof_call *call)
{
	uint32_t at = sosc_prof_place(key, call->function);
	const struct sosc_prof_node *node = &sosc_prof_nodes(table)[at];

	if (node->function == call->function && node->key == key)
		return (uint64_t)at << PROF_NODE_SHIFT;
	return sosc_prof_node_slow(table, key, call);
}

static uint64_t key_of(uint64_t from)
{
	return from && !(from & SOSC_PROF_INSIDE) ? from : SOSC_PROF_NO_CALLER;
}

// Returns the offset of the node of @call, which is not counted yet. @flags becomes the flags for
// its frame.
static uint64_t node_of(struct sosc_prof_thread *thread, struct sosc_prof_table *table,
			const struct sosc_prof_call *call, uint32_t *flags)
{
	const struct sosc_prof_frame *around = NULL;
	const struct sosc_prof_node *node;
	uint64_t at;

	if (thread->next > sosc_prof_frames(table))
		around = sosc_prof_settle(thread, table, call);
	at = sosc_prof_find_node(table, around ? around->key : key_of(call->from), call);
	node = sosc_prof_node_at(table, at);
	*flags = 0;
	if (!(node->flags & SOSC_PROF_NODE_ALIAS))
		return at;
	*flags = SOSC_PROF_FRAME_FOLDED;
	return node->site;
}

static uint64_t count(struct sosc_prof_table *table, uint64_t at)
{
	struct sosc_prof_node *node = sosc_prof_node_at(table, at);

	if (table == sosc_prof_shared)
		return __atomic_fetch_add(&node->calls, 1, __ATOMIC_RELAXED);
	sosc_local_increment(&node->calls);
	return node->calls;
}

static void count_alone(struct sosc_prof_thread *thread, const struct sosc_prof_call *call)
{
	struct sosc_prof_table *table = thread ? __atomic_load_n(&thread->table, __ATOMIC_RELAXED) :
						 NULL;

	if (table)
		(void)count(table, sosc_prof_find_node(table, key_of(call->from), call));
}

// Opens a call of the node at @at. Returns NULL if there is no room.
static struct sosc_prof_frame *open_call(struct sosc_prof_thread *thread,
					 struct sosc_prof_table *table,
					 const struct sosc_prof_call *call, uint64_t at)
{
	struct sosc_prof_frame *frame = __atomic_load_n(&thread->next, __ATOMIC_RELAXED);

	if (!frame)
		return NULL;
	// the last frame is never used: see PROF_FIND_NODE
	if (frame - sosc_prof_frames(table) >= SOSC_PROF_FRAMES - 2) {
		sosc_local_increment(&table->deep);
		return NULL;
	}
	__atomic_store_n(&thread->next, frame + 1, __ATOMIC_RELEASE);
	frame->key = SOSC_PROF_INSIDE | at;
	frame->site = call->site;
	frame->from = call->from;
	frame->function = call->function;
	frame->done = table->done;
	return frame;
}

static bool is_timed(const struct sosc_prof_frame *frame)
{
	return frame->place && frame->flags & SOSC_PROF_FRAME_TIMED;
}

/**
 * Returns the time, for a thread to which nothing was reported since table->last. If it has waited
 * for a processor since then, the time of the wait is taken out of all open calls: their start is
 * moved.
 */
static uint64_t time_after(struct sosc_prof_table *table, const struct sosc_prof_frame *end)
{
	uint64_t last = table->last, now = sosc_ticks(), ticks;

	if (!sosc_is_long(last, now))
		return now;
	ticks = sosc_delay_of_prof(last);
	now = sosc_ticks();
	if (ticks > now - last)
		ticks = now - last;
	for (struct sosc_prof_frame *frame = sosc_prof_frames(table); frame < end; frame++)
		if (is_timed(frame))
			frame->start += ticks;
	return now;
}

/** Begin the call of @frame: all but the clock is set. Called from assembly. */
void sosc_prof_begin_late(struct sosc_prof_table *table, struct sosc_prof_frame *frame)
{
	table->last = frame->start = time_after(table, frame);
}

// The clock is read last, so that the work before is not part of the call's time.
static void begin(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t sp,
		  uint32_t flags, uint64_t number)
{
	uint64_t phase = (uint32_t)frame->key * PROF_PHASE >> 8;

	if (!((number + phase) & sosc_prof_mask) && !sosc_clock_off)
		flags |= SOSC_PROF_FRAME_TIMED;
	frame->flags = flags;
	__atomic_store_n(&frame->place, ~sp, __ATOMIC_RELEASE);
	if (flags & SOSC_PROF_FRAME_TIMED)
		sosc_prof_begin_late(table, frame);
}

/** __cyg_profile_func_enter, if calls are timed. */
void sosc_prof_enter(uint64_t function, uint64_t from, uint64_t site, uint64_t sp)
{
	struct sosc_prof_thread *thread = sosc_prof_self();
	struct sosc_prof_call call = {
		.function = function, .site = site, .from = from, .sp = sp, .hook = SOSC_PROF_CYG};
	struct sosc_prof_table *table = sosc_prof_table_of(thread);
	struct sosc_prof_frame *frame;
	uint64_t at, number;
	uint32_t flags;

	if (!table) {
		count_alone(thread, &call);
		return;
	}
	at = node_of(thread, table, &call, &flags);
	number = count(table, at);
	frame = open_call(thread, table, &call, at);
	if (frame)
		begin(table, frame, sp, flags, number);
}

// The call of @frame has ended. @frame is NULL if the call is not open. @now is the time, or 0 if
// it is still to be read.
static void end(struct sosc_prof_thread *thread, struct sosc_prof_table *table,
		struct sosc_prof_frame *frame, uint64_t now)
{
	if (!frame) {
		sosc_local_increment(&table->unpaired);
		return;
	}
	if (frame->flags & SOSC_PROF_FRAME_TIMED) {
		if (!now || sosc_is_long(table->last, now))
			now = time_after(table, thread->next);
		table->last = now;
		sosc_prof_close(table, frame, now);
	}
	sosc_prof_pop(thread, frame);
}

/** __cyg_profile_func_exit, if calls are timed. @now is 0 if the clock was not read. */
void sosc_prof_exit(uint64_t function, uint64_t from, uint64_t sp, uint64_t now)
{
	struct sosc_prof_thread *thread = sosc_prof_self();
	struct sosc_prof_table *table = sosc_prof_table_of(thread);

	if (table)
		end(thread, table, sosc_prof_find(thread, table, function, from, sp), now);
}

/** mcount or __fentry__, if calls are timed: the function will return to a trampoline. */
void sosc_prof_called(uint64_t site, uint64_t *slot, struct sosc_cell *cell, uint32_t hook)
{
	struct sosc_prof_thread *thread = sosc_prof_self();
	struct sosc_prof_call call = {.function = site, .site = site, .hook = hook};
	struct sosc_prof_table *table = sosc_prof_table_of(thread);
	struct sosc_prof_frame *frame;
	uint64_t at, number, code;
	uint32_t flags;

	slot = sosc_prof_return_slot(hook, site, slot);
	call.sp = (uint64_t)slot;
	call.from = *slot;
	if (!table) {
		count_alone(thread, &call);
		return;
	}
	at = node_of(thread, table, &call, &flags);
	number = count(table, at);
	// if the call has no node, its code has not been examined
	if (!at || sosc_prof_node_at(table, at)->flags & SOSC_PROF_NODE_UNSEEN)
		return;
	code = sosc_site_find(call.from, cell);
	frame = code ? open_call(thread, table, &call, at) : NULL;
	if (!frame)
		return;
	*slot = code + SITE_RETURNS;
	begin(table, frame, call.sp, flags, number);
}

/** A function has returned to the trampoline at @code. Its return address was at @sp. */
void sosc_prof_returned(uint64_t code, uint64_t sp, uint64_t now)
{
	const struct sosc_site *site = (const void *)(code + SOSC_DISTANCE);
	struct sosc_prof_thread *thread = sosc_prof ? sosc_prof_self() : NULL;
	struct sosc_prof_table *table = sosc_prof_table_of(thread);

	if (table && !(site->flags & SITE_FLAG_OLD))
		end(thread, table, sosc_prof_find(thread, table, 0, site->ret, sp), now);
}

/** __cyg_profile_func_enter that found no node, if calls are only counted. */
void sosc_prof_count_slow(uint64_t function, uint64_t from, uint64_t site)
{
	struct sosc_prof_call call = {
		.function = function, .site = site, .from = from, .hook = SOSC_PROF_CYG};

	count_alone(sosc_prof_self(), &call);
}

/** The same for mcount and __fentry__. */
void sosc_prof_count_hook(uint64_t site, uint64_t *slot, uint32_t hook)
{
	struct sosc_prof_call call = {.function = site,
				      .site = site,
				      .from = *sosc_prof_return_slot(hook, site, slot),
				      .hook = hook};

	count_alone(sosc_prof_self(), &call);
}

/** __cyg_profile_func_enter_bare, which does not tell the caller. */
void sosc_prof_bare(uint64_t site)
{
	struct sosc_prof_call call = {.function = site, .site = site, .hook = SOSC_PROF_BARE};

	count_alone(sosc_prof_self(), &call);
}
