// SPDX-License-Identifier: Apache-2.0
/**
 * What a program sees of its own stack: backtrace and _Unwind_Backtrace leave out frames that lie
 * in the agent.
 */
#ifndef SOSC_BACKTRACE_H
#define SOSC_BACKTRACE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_cell;
struct sosc_loaded;

typedef int sosc_step(void *context, void *data); // _Unwind_Trace_Fn

void sosc_unwinder_learn(const struct sosc_loaded *image);
void sosc_unwinder_forget(const struct sosc_loaded *image);
void sosc_unwinders_forget(void);

// Called from assembly, in place of the function to which the cell leads
int sosc_backtrace(void **buffer, int size, struct sosc_cell *cell);
int sosc_walk(sosc_step *step, void *data, struct sosc_cell *cell);
uint64_t sosc_walk_ip(void *context, int *before, struct sosc_cell *cell);
uint64_t sosc_walk_ip_info(void *context, int *before, struct sosc_cell *cell);

#pragma GCC visibility pop

#endif
