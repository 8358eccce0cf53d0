// SPDX-License-Identifier: Apache-2.0
// Calls of allocators inside of each other: whether one is under way that leads to this one.
//
// A call that was begun may have been left by an exception or by longjmp, and what it has left on
// the stack looks as it did. So the frames between the two calls are followed, once for each pair of
// a return address and a distance.

#include "blocks/blocks.h"

uint64_t sosc_block_nested[1 << NESTED_BITS];

// The call that was under way was left by an exception, or by longjmp.
static void end_open(struct sosc_block_thread *state)
{
	state->recorded = 0;
	state->freeing = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->sp = 0;
}

/** As sosc_block_is_inside, if another call was begun and no such pair is known. */
bool sosc_block_look_inside(const struct sosc_block_call *call, uint64_t near)
{
	struct sosc_block_thread *state = call->state;
	uint64_t outer = state->sp, distance = outer - call->sp, ret = sosc_returns_to(call), word;
	const struct sosc_stack_call here = {
		.thread = call->thread, .view = &state->view, .sp = call->sp, .fp = call->fp};

	if (!sosc_view_has(&state->view, outer) &&
	    (state->view.is_whole || outer <= call->sp || distance >= NESTED_FAR))
		return false; // on another stack
	if (outer <= call->sp || !sosc_view_read(&state->view, call->thread, outer, &word) ||
	    word != state->ret) {
		end_open(state);
		return false;
	}
	switch (sosc_stack_nesting(&here, outer)) {
	case NESTING_INSIDE:
		if (distance < NESTED_FAR)
			__atomic_store_n(sosc_block_nested_at(ret, distance),
					 ret ^ distance << NESTED_SHIFT, __ATOMIC_RELAXED);
		return true;
	case NESTING_OVER:
		end_open(state);
		return false;
	case NESTING_UNKNOWN:
		return distance <= near;
	default:
		return false;
	}
}

/** An image is gone, and code of another one may be there next. */
void sosc_block_forget_nested(const struct sosc_loaded *image)
{
	(void)image;
	for (uint32_t i = 0; i < 1 << NESTED_BITS; i++)
		__atomic_store_n(&sosc_block_nested[i], 0, __ATOMIC_RELAXED);
}
