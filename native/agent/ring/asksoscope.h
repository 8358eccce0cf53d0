// SPDX-License-Identifier: Apache-2.0
/** Questions to soscope about functions that are in no table. */
#ifndef SOSC_ASKSOSCOPE_H
#define SOSC_ASKSOSCOPE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;
struct sosc_thread;

// false while soscope waits for this thread, which therefore must not wait for soscope
extern bool sosc_may_ask;

void sosc_tell_exec(const struct sosc_thread *thread, uint64_t name);
bool sosc_ask(struct sosc_loaded *caller, struct sosc_loaded *callee, const char *symbol,
	      bool was_asked);

#pragma GCC visibility pop

#endif
