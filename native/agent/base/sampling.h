// SPDX-License-Identifier: Apache-2.0
/**
 * Chance: which of many bytes are chosen, each with the same likelihood.
 */
#ifndef SOSC_SAMPLING_H
#define SOSC_SAMPLING_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

uint64_t sosc_chance_seed(uint64_t different);
uint64_t sosc_chance_draw(uint64_t *seed, uint64_t scale);

#pragma GCC visibility pop

#endif
