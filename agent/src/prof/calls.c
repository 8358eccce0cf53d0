// SPDX-License-Identifier: Apache-2.0
// A call is reported, and its return: the short way.

#include "clock.h"
#include "prof.h"
#include "site.h"
#include "thread.h"
#include "times.h"

enum { NEAR = 1 << 16 }; // bytes between a frame and the next one, most often

#define likely(condition) __builtin_expect(!!(condition), 1)

static inline struct sosc_prof_table *own_table(void)
{
	uint64_t key = sosc_thread_pointer();
	uint32_t at = (uint32_t)(key >> 12) * THREAD_FACTOR >> (32 - THREAD_BITS); // as FIND_THREAD
	const struct sosc_prof_thread *thread = &sosc_prof_threads[at];

	if (likely(thread->key == key && thread->tid == sosc_thread_word(sosc_tid_offset) &&
		   thread->table))
		return (void *)thread->table;
	return sosc_prof_table_slow();
}

static inline uint32_t find_node(struct sosc_prof_table *table, uint64_t key,
				 const struct sosc_prof_call *call)
{
	uint32_t at = sosc_prof_place(key, call->function);
	const struct sosc_prof_node *node = &sosc_prof_nodes(table)[at];

	if (likely(node->function == call->function && node->key == key))
		return at;
	return sosc_prof_node_slow(table, key, call);
}

static inline uint64_t key_of(uint64_t from)
{
	return from ? from & ~SOSC_PROF_INSIDE : SOSC_PROF_NO_CALLER;
}

// The node of @call, which is not counted yet; @flags are those of its frame.
static inline uint32_t node_of(struct sosc_prof_table *table, const struct sosc_prof_call *call,
			       uint32_t *flags)
{
	struct sosc_prof_frame *frames = sosc_prof_frames(table);
	const struct sosc_prof_node *node;
	uint32_t around = table->depth, at;

	*flags = 0;
	if (around) {
		const struct sosc_prof_frame *top = &frames[around - 1];
		uint64_t distance = ~top->place - call->sp;

		if (!likely(distance - 1 < NEAR) &&
		    (distance || call->hook != SOSC_PROF_CYG || top->from != call->from ||
		     top->site == call->site))
			around = sosc_prof_settle(table, call);
	}
	at = find_node(table,
		       around ? SOSC_PROF_INSIDE | frames[around - 1].node : key_of(call->from),
		       call);
	node = &sosc_prof_nodes(table)[at];
	if (likely(!(node->flags & SOSC_PROF_NODE_ALIAS)))
		return at;
	*flags = SOSC_PROF_FRAME_FOLDED;
	return (uint32_t)node->site;
}

// An open call; NULL: there is no room.
static inline struct sosc_prof_frame *open_call(struct sosc_prof_table *table,
						const struct sosc_prof_call *call, uint32_t node)
{
	uint32_t depth = table->depth;
	struct sosc_prof_frame *frame = &sosc_prof_frames(table)[depth];

	if (!likely(depth < SOSC_PROF_FRAMES)) {
		sosc_local_increment(&table->deep);
		return NULL;
	}
	__atomic_store_n(&table->depth, depth + 1, __ATOMIC_RELEASE);
	frame->node = node;
	frame->site = call->site;
	frame->from = call->from;
	frame->function = call->function;
	frame->done = table->done;
	return frame;
}

// The clock is read last: what comes before is not the call's time.
static inline void begin(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t sp,
			 uint32_t flags, uint64_t number)
{
	if (!((number + (frame->node * (uint64_t)THREAD_FACTOR >> 8)) & sosc_prof_mask))
		flags |= SOSC_PROF_FRAME_TIMED;
	if (sosc_clock_off)
		flags &= ~(uint32_t)SOSC_PROF_FRAME_TIMED;
	frame->flags = flags;
	__atomic_store_n(&frame->place, ~sp, __ATOMIC_RELEASE);
	if (flags & SOSC_PROF_FRAME_TIMED)
		table->last = frame->start = sosc_read_counter();
}

static inline uint64_t count(struct sosc_prof_table *table, uint32_t at)
{
	struct sosc_prof_node *node = &sosc_prof_nodes(table)[at];

	sosc_local_increment(&node->calls);
	return node->calls;
}

// In the table that threads share, calls are counted alone.
static void count_shared(const struct sosc_prof_call *call)
{
	uint32_t at = find_node(sosc_prof_shared, key_of(call->from), call);

	__atomic_fetch_add(&sosc_prof_nodes(sosc_prof_shared)[at].calls, 1, __ATOMIC_RELAXED);
}

static void count_alone(struct sosc_prof_table *table, const struct sosc_prof_call *call)
{
	if (table == sosc_prof_shared)
		count_shared(call);
	else if (table)
		(void)count(table, find_node(table, key_of(call->from), call));
}

/** __cyg_profile_func_enter, where calls are timed. */
void sosc_prof_enter(uint64_t function, uint64_t from)
{
	struct sosc_prof_table *table = own_table();
	struct sosc_prof_call call = {.function = function,
				      .site = (uint64_t)__builtin_return_address(0),
				      .from = from,
				      .sp = (uint64_t)__builtin_dwarf_cfa(),
				      .hook = SOSC_PROF_CYG};
	struct sosc_prof_frame *frame;
	uint32_t node, flags;
	uint64_t number;

	if (!table)
		return;
	if (table == sosc_prof_shared) {
		count_shared(&call);
		return;
	}
	node = node_of(table, &call, &flags);
	number = count(table, node);
	frame = open_call(table, &call, node);
	if (frame)
		begin(table, frame, call.sp, flags, number);
}

// @frame, if it is one, is over. Its time was read before, or is now.
static inline void end(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t now)
{
	if (frame->flags & SOSC_PROF_FRAME_TIMED) {
		if (!now)
			now = sosc_ticks();
		table->last = now;
		sosc_prof_close(table, frame, now);
	}
	sosc_prof_pop(table, frame);
}

/** __cyg_profile_func_exit, where calls are timed. */
void sosc_prof_exit(uint64_t function, uint64_t from)
{
	uint64_t now = sosc_prof_mask ? 0 : sosc_ticks();
	struct sosc_prof_table *table = own_table();
	struct sosc_prof_frame *frame;
	uint32_t depth;

	if (!table || table == sosc_prof_shared)
		return;
	depth = table->depth;
	frame = depth ? &sosc_prof_frames(table)[depth - 1] : NULL;
	if (!likely(frame && frame->place > 1 && frame->function == function &&
		    frame->from == from))
		frame = sosc_prof_find(table, function, from, (uint64_t)__builtin_dwarf_cfa());
	if (frame)
		end(table, frame, now);
	else
		sosc_local_increment(&table->unpaired);
}

static inline uint64_t trampoline(uint64_t from, struct sosc_cell *cell)
{
	uint64_t at = (from ^ (uint64_t)cell >> 3) * HINT_FACTOR >>
		      (64 - HINT_BITS); // as FIND_SITE
	uint64_t code = sosc_hints[at];
	const struct sosc_site *site = (const void *)(code + SOSC_DISTANCE);

	if (likely(site->ret == from && site->cell == (uint64_t)cell))
		return code;
	return sosc_site_find(from, cell);
}

/** mcount or __fentry__, where calls are timed: the function returns to a trampoline. */
void sosc_prof_called(uint64_t site, uint64_t *slot, struct sosc_cell *cell, uint32_t hook)
{
	struct sosc_prof_table *table = own_table();
	struct sosc_prof_call call = {.function = site, .site = site, .hook = hook};
	struct sosc_prof_frame *frame;
	uint32_t node, flags;
	uint64_t number, code;

	slot = sosc_prof_return_slot(hook, site, slot);
	call.sp = (uint64_t)slot;
	call.from = *slot;
	if (!table || table == sosc_prof_shared) {
		count_alone(table, &call);
		return;
	}
	node = node_of(table, &call, &flags);
	number = count(table, node);
	if (sosc_prof_nodes(table)[node].flags & SOSC_PROF_NODE_UNSEEN)
		return;
	code = trampoline(call.from, cell);
	frame = code ? open_call(table, &call, node) : NULL;
	if (!frame)
		return;
	*slot = code + SITE_RETURNS;
	begin(table, frame, call.sp, flags, number);
}

void sosc_prof_returned(struct sosc_regs *regs)
{
	uint64_t now = sosc_prof_mask ? 0 : sosc_ticks(), sp = (uint64_t)&regs->ret;
	const struct sosc_site *site = sosc_returned_to(regs);
	struct sosc_prof_table *table = sosc_prof ? own_table() : NULL;
	struct sosc_prof_frame *frame;
	uint32_t depth;

	if (!table || table == sosc_prof_shared || site->flags & SITE_FLAG_OLD)
		return;
	depth = table->depth;
	frame = depth ? &sosc_prof_frames(table)[depth - 1] : NULL;
	if (!likely(frame && frame->place == ~sp && frame->from == site->ret))
		frame = sosc_prof_find(table, 0, site->ret, sp);
	if (frame)
		end(table, frame, now);
	else
		sosc_local_increment(&table->unpaired);
}

/** __cyg_profile_func_enter that found no node, where calls are only counted. */
void sosc_prof_count_slow(uint64_t function, uint64_t from, uint64_t site)
{
	struct sosc_prof_call call = {
		.function = function, .site = site, .from = from, .hook = SOSC_PROF_CYG};

	count_alone(own_table(), &call);
}

/** The same for mcount and __fentry__. */
void sosc_prof_count_hook(uint64_t site, uint64_t *slot, uint32_t hook)
{
	struct sosc_prof_call call = {.function = site,
				      .site = site,
				      .from = *sosc_prof_return_slot(hook, site, slot),
				      .hook = hook};

	count_alone(own_table(), &call);
}

/** __cyg_profile_func_enter_bare, which does not say who has called. */
void sosc_prof_bare(void)
{
	uint64_t site = (uint64_t)__builtin_return_address(0);
	struct sosc_prof_call call = {.function = site, .site = site, .hook = SOSC_PROF_BARE};

	count_alone(own_table(), &call);
}
