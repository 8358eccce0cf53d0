// SPDX-License-Identifier: Apache-2.0
/**
 * What the program has forbidden itself, and with it the agent.
 */
#ifndef SOSC_GUARD_H
#define SOSC_GUARD_H

#include "thread/thread.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;

// Above 0: system calls may be forbidden. How often it has been asked for and not been
// refused.
extern uint32_t sosc_sealed;

/** Whether the agent makes no system calls; @thread is the caller or NULL. */
static inline bool sosc_is_sealed(const struct sosc_thread *thread)
{
	return __atomic_load_n(&sosc_sealed, __ATOMIC_RELAXED) || (thread && thread->sealed);
}

uint32_t sosc_guard_kind(const struct sosc_candidate *at);
uint64_t sosc_guard_handler(uint32_t kind);

#pragma GCC visibility pop

#endif
