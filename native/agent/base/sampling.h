// SPDX-License-Identifier: Apache-2.0
/** Random choice among many bytes, each with the same probability. */
#ifndef SOSC_SAMPLING_H
#define SOSC_SAMPLING_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

uint64_t sosc_chance_seed(uint64_t different);
uint64_t sosc_chance_draw(uint64_t *seed, uint64_t scale);

#pragma GCC visibility pop

#endif
