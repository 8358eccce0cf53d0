// SPDX-License-Identifier: Apache-2.0
/**
 * Which memory around a call is stack, and so stays as long as the call does.
 */
#ifndef SOSC_MEM_VIEW_H
#define SOSC_MEM_VIEW_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_memos;
struct sosc_thread;

// What a thread knows of the stack that it runs on. Where the C library or the kernel has said how far
// that reaches, it is all of the stack. Of another one (a coroutine's, a signal handler's) it is the
// page of a call: what lies above may be something else, and may go meanwhile.
struct sosc_view {
	uint64_t low, high; // addrs that can be read
	uint64_t is_whole; // the stack ends at `high`
	struct sosc_memos *memos; // what was walked; NULL: there is no memory for it
};

/** Whether a place is in the part of the stack that can be read. */
static inline bool sosc_view_has(const struct sosc_view *view, uint64_t sp)
{
	return sp >= view->low && sp < view->high;
}

// view.c
bool sosc_view_own(const struct sosc_thread *thread, uint64_t sp, uint64_t *low, uint64_t *high);
void sosc_view_find(struct sosc_view *view, const struct sosc_thread *thread, uint64_t sp);
bool sosc_view_read(const struct sosc_view *view, const struct sosc_thread *thread, uint64_t addr,
		    uint64_t *word);

#pragma GCC visibility pop

#endif
