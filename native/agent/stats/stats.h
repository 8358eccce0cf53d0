// SPDX-License-Identifier: Apache-2.0
/** The statistics of -c for each function, and the cost of collecting them. */
#ifndef SOSC_STATS_H
#define SOSC_STATS_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

extern uint64_t sosc_cost_inner;
extern uint64_t sosc_cost_outer;

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_stats) == 1 << STATS_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_stats, max) == STATS_MAX, "layout.h");
_Static_assert(offsetof(struct sosc_stats, self) == STATS_SELF, "layout.h");

#endif
