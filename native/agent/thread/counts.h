// SPDX-License-Identifier: Apache-2.0
/** Count arrays: each thread counts in its own. */
#ifndef SOSC_COUNTS_H
#define SOSC_COUNTS_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

enum { SOSC_LATER_ARRAYS = 2048 };

struct sosc_thread;

// The threads of this process that own count arrays: index of their struct sosc_thread + 1. The
// list is wiped in a forked child, so that the child takes no array of its parent.
struct sosc_owners {
	uint32_t count;
	uint16_t of[SOSC_LATER_ARRAYS];
};

extern struct sosc_owners *sosc_owners;

void sosc_counts_leave(void);
void sosc_counts_rest(void);
void sosc_counts_start(uint64_t control_size, uint32_t block);
bool sosc_counts_callers(void);
void sosc_counts_give(struct sosc_thread *thread);
bool sosc_thread_pointer_is_free(uint64_t tp, uint32_t pid);
bool sosc_thread_has_ended(const struct sosc_thread *place, uint32_t pid);
void *sosc_counts_shared(enum sosc_instrument_kind kind);

#pragma GCC visibility pop

#endif
