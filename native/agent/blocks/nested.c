// SPDX-License-Identifier: Apache-2.0
// Nested calls of allocators: whether an open call leads to this one.
//
// An open call may have been left by an exception or by longjmp, and its frame on the stack still
// looks the same. So the frames between the two calls are followed, once for each pair of a return
// address and a distance.

#include "blocks/blocks.h"

uint64_t sosc_block_nested[1 << NESTED_BITS];

// The open call was left by an exception or by longjmp.
static void end_open(struct sosc_block_thread *state)
{
	state->recorded = 0;
	state->freeing = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	state->sp = 0;
}

/** Do the work of sosc_block_is_inside if a call is open and the pair is not known. */
bool sosc_block_look_inside(const struct sosc_block_call *call, uint64_t near)
{
	struct sosc_block_thread *state = call->state;
	uint64_t outer = state->sp, distance = outer - call->sp, ret = sosc_returns_to(call), word;
	const struct sosc_stack_call here = {
		.thread = call->thread, .view = &state->view, .sp = call->sp, .fp = call->fp};

	if (!sosc_view_has(&state->view, outer) &&
	    (state->view.is_whole || outer <= call->sp || distance >= NESTED_FAR))
		return false; // the open call is on another stack
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

/** An image was unloaded, and other code may be loaded there next. */
void sosc_block_forget_nested(const struct sosc_loaded *image)
{
	(void)image;
	for (uint32_t i = 0; i < 1 << NESTED_BITS; i++)
		__atomic_store_n(&sosc_block_nested[i], 0, __ATOMIC_RELAXED);
}
