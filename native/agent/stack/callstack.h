// SPDX-License-Identifier: Apache-2.0
/** The stacks of calls that TRACE records, if the session wants them (SOSC_PLAN_STACKS). */
#ifndef SOSC_CALLSTACK_H
#define SOSC_CALLSTACK_H

#include "base/arch.h"

#pragma GCC visibility push(hidden)

struct sosc_thread;

void sosc_call_stacks_start(void);
bool sosc_call_stack(struct sosc_thread *thread, const struct sosc_regs *regs, uint64_t fp,
		     uint32_t *number);

// code_x86_64_state.c
enum { SOSC_ALL_STATE = 2752 }; // bytes of all registers that can hold arguments, aligned to 64
void sosc_state_keep(uint8_t to[SOSC_ALL_STATE], bool all);
void sosc_state_put_back(const uint8_t from[SOSC_ALL_STATE], bool all);

#pragma GCC visibility pop

_Static_assert(SOSC_ALL_STATE % 64 == 0, "each of many is at 64");

#endif
