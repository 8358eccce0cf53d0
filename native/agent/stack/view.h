// SPDX-License-Identifier: Apache-2.0
/** Which memory around a call is stack, and therefore stays as long as the call lasts. */
#ifndef SOSC_MEM_VIEW_H
#define SOSC_MEM_VIEW_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_memos;
struct sosc_thread;

// What a thread knows of the stack on which it runs. If the C library or the kernel has told its
// bounds, this is the whole stack. For another stack (of a coroutine or a signal handler) it is
// only the page of the call, because the memory above may be something else and may be unmapped
// meanwhile.
struct sosc_view {
	uint64_t low, high; // bounds of the memory that can be read
	uint64_t is_whole; // 1: the stack ends at `high`
	struct sosc_memos *memos; // kept walks, NULL if there is no memory for them
};

/** Return whether an address is in the part of the stack that can be read. */
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
