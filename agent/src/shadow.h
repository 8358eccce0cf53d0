// SPDX-License-Identifier: Apache-2.0
/**
 * Words near an image that re-aimed stubs go through.
 */
#ifndef SOSC_SHADOW_H
#define SOSC_SHADOW_H

#include "agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

uint64_t sosc_shadow_cell(const struct sosc_loaded *image, uint64_t slot);

#pragma GCC visibility pop

#endif
