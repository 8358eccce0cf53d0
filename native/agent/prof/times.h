// SPDX-License-Identifier: Apache-2.0
/**
 * What of the calls that instrumented code reports is timed.
 */
#ifndef SOSC_PROF_TIMES_H
#define SOSC_PROF_TIMES_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

extern uint64_t sosc_prof_mask; // one call in so many, less one: 0: all of them

void sosc_prof_calibrate(void);

#pragma GCC visibility pop

#endif
