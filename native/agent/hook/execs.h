// SPDX-License-Identifier: Apache-2.0
/** Programs that children execute while children are not followed. */
#ifndef SOSC_EXECS_H
#define SOSC_EXECS_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_start;
struct sosc_thread;

void sosc_execs_start(const struct sosc_start *start);
void sosc_execs_rest(void);
bool sosc_execs_wanted(void);
bool sosc_execs_is_child(const struct sosc_thread *thread);
bool sosc_execs_begin(const struct sosc_thread *thread, uint64_t path);
bool sosc_execs_begin_here(const struct sosc_thread *thread);
bool sosc_execs_failed(const struct sosc_thread *thread);

#pragma GCC visibility pop

#endif
