// SPDX-License-Identifier: Apache-2.0
/** Slots that were hooked before, or by another process. */
#ifndef SOSC_KNOWN_H
#define SOSC_KNOWN_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;

void sosc_known_rest(void);
void sosc_known_again(void);
uint32_t sosc_slot_known(const struct sosc_candidate *at, uint32_t instrument);
uint32_t sosc_slot_new(const struct sosc_candidate *at, uint32_t instrument, uint32_t symbol);

#pragma GCC visibility pop

#endif
