// SPDX-License-Identifier: Apache-2.0
// The stacks of calls that TRACE records. What a thread knows of its stack is kept by the thread's
// index, and wiped in a forked child.

#include "stack/callstack.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/site.h"
#include "image/namespace.h"
#include "stack/walk.h"
#include "stack/walkcache.h"
#include "thread/thread.h"

enum {
	NEAR = 1 << 16, // most bytes of stack that an interpreter uses while it answers
	LONG = 2048, // ticks: a walk that takes longer is recorded as time of the agent
};

struct caller { // what is known of a thread
	uint32_t tid; // id of the thread
	uint32_t reserved;
	// address of the return address of the call for which an interpreter is being asked; else 0
	uint64_t sp;
	uint64_t ret; // the return address there
	struct sosc_view view;
};

static struct caller *callers; // by the index of a struct sosc_thread
// Saved registers, by the same index, because signal handlers may run on a small stack. A child
// that is forked meanwhile has them, too.
static uint8_t (*states)[SOSC_ALL_STATE];
static bool all_state; // whether to use XSAVE, see sosc_state_keep

static void *map_for(void *place, uint64_t size)
{
	void *map = sosc_memory_map(size);

	if (map)
		sosc_memory_keep(map, size, place);
	return map;
}

/** A session begins that wants stacks. */
void sosc_call_stacks_start(void)
{
	const uint64_t size = (uint64_t)THREAD_COUNT * sizeof(*callers);

	struct sosc_blocks *own;

	all_state = sosc_stacks_start(SOSC_INSTRUMENT_TRACE, &own)->has_xsave;
	if (callers) {
		(void)sosc_sys3(SYS_MADVISE, (long)callers, (long)size, MADV_DONTNEED);
		return;
	}
	if (!states)
		states = map_for(&states, (uint64_t)THREAD_COUNT * sizeof(*states));
	callers = states ? map_for(&callers, size) : NULL;
	if (callers)
		(void)sosc_sys3(SYS_MADVISE, (long)callers, (long)size, MADV_WIPEONFORK);
}

static struct caller *caller_of(const struct sosc_thread *thread)
{
	struct caller *caller = &callers[thread - sosc_threads];

	if (caller->tid == thread->tid)
		return caller;
	memset(caller, 0, sizeof(*caller));
	caller->view.memos = sosc_memos_of(thread);
	caller->tid = thread->tid;
	return caller;
}

// Returns whether this call is made by an interpreter that is being asked for its frames. A signal
// handler may have left the interpreter by siglongjmp: then the stack has something else there by
// now.
static bool is_asked(const struct caller *caller, const struct sosc_thread *thread, uint64_t sp)
{
	uint64_t ret;

	return caller->sp - sp - 1 < NEAR &&
	       sosc_view_read(&caller->view, thread, caller->sp, &ret) && ret == caller->ret;
}

// Returns whether this call has interrupted a call for which an interpreter is being asked. If a
// signal handler has left that call by siglongjmp, the stack has something else there by now, or
// this call's own return address.
static bool is_asking(const struct caller *caller, const struct sosc_thread *thread, uint64_t sp)
{
	uint64_t ret;

	return caller->sp && caller->sp != sp &&
	       sosc_view_read(&caller->view, thread, caller->sp, &ret) && ret == caller->ret;
}

// Asks the interpreter by calling its functions. Registers and errno that they change are restored.
static __attribute__((noinline)) uint32_t ask(struct caller *caller,
					      const struct sosc_stack_call *call)
{
	uint8_t *state = states[call->thread - sosc_threads];
	int64_t at = sosc_errno_offsets[0];
	uint32_t error = at ? sosc_thread_word(at) : 0, number;

	caller->ret = *(const uint64_t *)call->sp;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	caller->sp = call->sp;
	sosc_state_keep(state, all_state);
	number = sosc_stack_walk(call, SOSC_API_NONE);
	sosc_state_put_back(state, all_state);
	caller->sp = 0;
	if (at)
		sosc_set_thread_word(at, error);
	return number;
}

/**
 * Find the number of a call's stack, or 0 if unknown. Return false if the program does not make
 * this call, but an interpreter that is being asked for its frames.
 */
bool sosc_call_stack(struct sosc_thread *thread, const struct sosc_regs *regs, uint64_t fp,
		     uint32_t *number)
{
	uint64_t start = sosc_ticks();
	struct sosc_stack_call call = {.thread = thread, .sp = (uint64_t)&regs->ret, .fp = fp};
	struct caller *caller;

	*number = 0;
	if (!callers)
		return true;
	caller = caller_of(thread);
	if (caller->sp && is_asked(caller, thread, call.sp))
		return false;
	call.view = &caller->view;
	if (!sosc_view_has(&caller->view, call.sp))
		sosc_view_find(&caller->view, thread, call.sp);
	call.native = !sosc_has_language() || is_asking(caller, thread, call.sp);
	*number = call.native ? sosc_stack_walk(&call, SOSC_API_NONE) : ask(caller, &call);
	if (sosc_ticks() - start >= LONG)
		sosc_account(thread, start);
	return true;
}
