// SPDX-License-Identifier: Apache-2.0
/** Hooking a running process, some milliseconds at a time. */
#ifndef SOSC_TURNS_H
#define SOSC_TURNS_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

void sosc_turns_begin(void);
void sosc_turns_count(void);
bool sosc_turns_hold(void);
void sosc_turns_forget(const struct sosc_loaded *image);

#pragma GCC visibility pop

long soscope_agent_hook(uint64_t ns);

#endif
