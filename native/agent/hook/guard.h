// SPDX-License-Identifier: Apache-2.0
/** What the program has forbidden itself, and therefore the agent. */
#ifndef SOSC_GUARD_H
#define SOSC_GUARD_H

#include "thread/thread.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;

uint32_t sosc_guard_kind(const struct sosc_candidate *at);
uint64_t sosc_guard_handler(uint32_t kind);

#pragma GCC visibility pop

#endif
