// SPDX-License-Identifier: Apache-2.0
/** Which of the reported calls are timed. */
#ifndef SOSC_PROF_TIMES_H
#define SOSC_PROF_TIMES_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

extern uint64_t sosc_prof_mask; // one call in so many + 1 is timed, 0 if all are

void sosc_prof_calibrate(void);

#pragma GCC visibility pop

#endif
