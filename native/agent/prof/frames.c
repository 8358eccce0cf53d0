// SPDX-License-Identifier: Apache-2.0
// Open calls of a thread. They say who is inside whom, and since when; the program's own returns
// depend on nothing here. A call that is left by longjmp, an exception or a coroutine is noticed
// by its stack address, when something is reported that can only be behind it.
//
// A signal handler may come at any moment, and find a frame on top that is being written: it is
// of who was interrupted, and stays.

#include "base/signals.h"
#include "call/site.h"
#include "prof/log.h"
#include "prof/prof.h"
#include "thread/thread.h"

enum {
	NOBODY = 0, // a frame's place: it is being written
	RETURNED = PROF_RETURNED, // while others above it are open
	GAP = 1 << 16, // bytes between frames that lie on one stack, most often
	REACH = 1 << 23, // bytes of a stack
	HOST = 512, // bytes that a function has pushed when another one inside it reports itself
};

static bool is_hidden(const struct sosc_prof_frame *frame)
{
	return frame->place == NOBODY || frame->place == RETURNED;
}

/** The time of a call that is over at @now, which is its own where no other call took it. */
void sosc_prof_close(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t now)
{
	struct sosc_prof_node *node = sosc_prof_node_at(table, frame->key);
	uint64_t ticks = now - frame->start, inside = table->done - frame->done;

	if (!(frame->flags & SOSC_PROF_FRAME_TIMED))
		return;
	if ((int64_t)ticks < 0)
		ticks = 0;
	if (!(frame->flags & SOSC_PROF_FRAME_FOLDED))
		sosc_local_increase(&node->total, ticks);
	(void)sosc_local_add_short(&node->timed, 1);
	if (inside >= ticks)
		return;
	sosc_local_increase(&node->self, ticks - inside);
	sosc_local_increase(&table->done, ticks - inside);
}

/** @frame has returned: give it up. */
void sosc_prof_pop(struct sosc_prof_thread *thread, struct sosc_prof_frame *frame)
{
	if (frame >= thread->next) // a signal handler has done so
		return;
	if (frame != thread->next - 1) {
		frame->place = RETURNED;
		return;
	}
	do {
		frame->place = NOBODY;
		__atomic_store_n(&thread->next, frame, __ATOMIC_RELAXED);
	} while ((--frame)->place == RETURNED);
}

// A call that nobody saw return. A handler that comes here, too, does not find it any more.
static void give_up(struct sosc_prof_table *table, struct sosc_prof_frame *frame)
{
	struct sosc_prof_frame call = *frame;

	if (sosc_prof_given->mode != SOSC_PROF_LOG)
		sosc_prof_close(table, frame, table->last);
	else if (sosc_local_swap(&frame->place, call.place, RETURNED))
		sosc_prof_log(&call, table->last, SOSC_REPORTED_LEFT);
	sosc_local_increment(&table->left);
}

// Calls that nobody saw return, down to @keep: they took until the last thing that was reported
// inside them, at least.
static void leave(struct sosc_prof_thread *thread, struct sosc_prof_table *table,
		  const struct sosc_prof_frame *keep)
{
	struct sosc_prof_frame *frame;

	while ((frame = __atomic_load_n(&thread->next, __ATOMIC_RELAXED)) > keep) {
		frame--;
		if (!is_hidden(frame))
			give_up(table, frame);
		frame->place = NOBODY;
		__atomic_store_n(&thread->next, frame, __ATOMIC_RELAXED);
	}
}

// The same, in the name of the thread that had the table before.
static void leave_as(struct sosc_prof_thread *mine, struct sosc_prof_table *table,
		     const struct sosc_prof_frame *keep)
{
	struct sosc_thread *thread = sosc_thread_self();
	uint64_t before;
	uint32_t tid;
	bool are_held;

	if (!thread)
		return;
	are_held = sosc_signals_hold(sosc_is_sealed(thread), &before);
	tid = sosc_thread_writes_as(thread, table->tid);
	leave(mine, table, keep);
	(void)sosc_thread_writes_as(thread, tid);
	if (are_held)
		sosc_signals_release(&before);
}

/** A thread begins with a table: calls that are open there are of one that has ended. */
void sosc_prof_leave_all(struct sosc_prof_thread *thread, struct sosc_prof_table *table)
{
	struct sosc_prof_frame *first = sosc_prof_frames(table), *next = first;

	while (next - first < SOSC_PROF_FRAMES - 1 && next->place != NOBODY)
		next++;
	thread->next = next;
	if (sosc_prof_given->mode == SOSC_PROF_LOG && next > first)
		leave_as(thread, table, first);
	else
		leave(thread, table, first);
}

static uint64_t behind_trampolines(uint64_t from)
{
	uint64_t to = sosc_site_returns_to(from);

	return to ? to : from;
}

// Whether @frame, at the address of @call or a little below, is around it all the same: it has
// jumped there in the place of a call, or the compiler has put the one into the other.
static bool is_around(const struct sosc_prof_frame *frame, const struct sosc_prof_call *call)
{
	uint64_t at = ~frame->place;

	if (call->hook != SOSC_PROF_CYG)
		return at == call->sp && call->from != frame->from &&
		       sosc_site_returns_to(call->from) == behind_trampolines(frame->from);
	return call->sp - at < HOST && frame->from == call->from && frame->site != call->site;
}

/**
 * The frame around @call; NULL: there is none. Those that can only be over are given up: they lie
 * below it, on its stack, which is where frames lie close to each other.
 */
struct sosc_prof_frame *sosc_prof_settle(struct sosc_prof_thread *thread,
					 struct sosc_prof_table *table,
					 const struct sosc_prof_call *call)
{
	struct sosc_prof_frame *first = sosc_prof_frames(table), *around = NULL;
	struct sosc_prof_frame *keep = first, *frame;
	uint64_t edge = 0;
	bool one_stack = true;

	for (frame = thread->next; !around && frame-- > first;) {
		uint64_t at = ~frame->place;

		if (frame->place == NOBODY && keep == first)
			keep = frame + 1;
		if (is_hidden(frame))
			continue;
		if (at > call->sp || is_around(frame, call)) {
			if (at <= call->sp || at - call->sp < REACH)
				around = frame;
			else
				one_stack = false;
			continue;
		}
		if (edge && (at < edge || at - edge > GAP))
			one_stack = false;
		edge = at;
	}
	if (edge && call->sp - edge > GAP)
		one_stack = false;
	if (around && around + 1 > keep)
		keep = around + 1;
	if (one_stack)
		leave(thread, table, keep);
	return around;
}

static bool is_it(const struct sosc_prof_frame *frame, uint64_t function, uint64_t from,
		  uint64_t sp)
{
	if (is_hidden(frame) || frame->from != from)
		return false;
	return function ? frame->function == function : ~frame->place == sp;
}

/**
 * The frame of a call that returns: of @function where that reports it itself at @sp, or of
 * whatever has its return address, @from, there; NULL: it is not open. Calls inside it are over.
 */
struct sosc_prof_frame *sosc_prof_find(struct sosc_prof_thread *thread,
				       struct sosc_prof_table *table, uint64_t function,
				       uint64_t from, uint64_t sp)
{
	struct sosc_prof_frame *first = sosc_prof_frames(table), *found = NULL, *frame;

	for (frame = thread->next; frame-- > first;) {
		if (!is_it(frame, function, from, sp))
			continue;
		if (!found || ~found->place < sp)
			found = frame;
		if (~found->place >= sp)
			break;
	}
	frame = __atomic_load_n(&thread->next, __ATOMIC_RELAXED);
	while (found && frame && --frame > found) {
		if (is_hidden(frame) || ~frame->place > ~found->place ||
		    ~found->place - ~frame->place > REACH)
			continue;
		give_up(table, frame);
		sosc_prof_pop(thread, frame);
	}
	return found;
}
