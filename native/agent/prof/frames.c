// SPDX-License-Identifier: Apache-2.0
// Open calls of a thread. They tell which call is inside which other, and since when. The program's
// own returns do not depend on them. If a call is left by longjmp, an exception or a coroutine, its
// stack address shows that as soon as something is reported that can only come after the end of the
// call.
//
// A signal handler may run at any moment and find a frame on top that is being written. That frame
// belongs to the interrupted code, so the handler leaves it alone.

#include "base/signals.h"
#include "call/site.h"
#include "prof/log.h"
#include "prof/prof.h"
#include "thread/thread.h"

enum {
	NOBODY = 0, // a frame's place: the frame is being written
	RETURNED = PROF_RETURNED, // the call has returned, but calls above it are open
	GAP = 1 << 16, // bytes: frames on one stack usually lie closer to each other
	REACH = 1 << 23, // bytes of a stack
	// bytes that a function may have pushed when a function inlined into it reports itself
	HOST = 512,
};

static bool is_hidden(const struct sosc_prof_frame *frame)
{
	return frame->place == NOBODY || frame->place == RETURNED;
}

/**
 * The call has ended at @now: add its time. Its self time is the time that no inner call has taken.
 */
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

/** The call of @frame has returned: release the frame. */
void sosc_prof_pop(struct sosc_prof_thread *thread, struct sosc_prof_frame *frame)
{
	if (frame >= thread->next) // a signal handler has released it already
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

// Gives up a call whose return was not seen. A signal handler that gets here, too, does not find it
// any more.
static void give_up(struct sosc_prof_table *table, struct sosc_prof_frame *frame)
{
	struct sosc_prof_frame call = *frame;

	if (sosc_prof_given->mode != SOSC_PROF_LOG)
		sosc_prof_close(table, frame, table->last);
	else if (sosc_local_swap(&frame->place, call.place, RETURNED))
		sosc_prof_log(&call, table->last, SOSC_REPORTED_LEFT);
	sosc_local_increment(&table->left);
}

// Gives up the calls above @keep, whose returns were not seen. They lasted at least until the last
// report inside them.
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

/** A thread begins to use a table. Open calls in it belong to a thread that has ended. */
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

// Returns whether @frame is around @call although it lies at the same address or a little below it.
// Either its function has jumped to the other one (a tail call), or the compiler has inlined one
// into the other.
static bool is_around(const struct sosc_prof_frame *frame, const struct sosc_prof_call *call)
{
	uint64_t at = ~frame->place;

	if (call->hook != SOSC_PROF_CYG)
		return at == call->sp && call->from != frame->from &&
		       sosc_site_returns_to(call->from) == behind_trampolines(frame->from);
	return call->sp - at < HOST && frame->from == call->from && frame->site != call->site;
}

/**
 * Return the frame around @call, or NULL if there is none. Gives up frames whose calls must have
 * ended: they lie below @call on the same stack. Frames are taken to lie on one stack if they lie
 * close to each other.
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
 * Return the frame of a call that returns, or NULL if it is not open. If the function reports its
 * return itself, it is @function, and @sp its stack address. Otherwise it is the call that has its
 * return address, @from, at @sp. Calls inside it have ended.
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
