// SPDX-License-Identifier: Apache-2.0
/**
 * Hooks of instrumented code that nobody wants called.
 */
#ifndef SOSC_SILENCE_H
#define SOSC_SILENCE_H

#include "agent.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;

enum { SOSC_PROF_CALL_SIZE = 6 };

void sosc_prof_silence(const struct sosc_candidate *at);
const uint8_t *sosc_prof_no_call(uint64_t displacement, uint64_t *ret_addr);

#pragma GCC visibility pop

#endif
