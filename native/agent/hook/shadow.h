// SPDX-License-Identifier: Apache-2.0
/** Memory near an image, with words through which re-aimed stubs go. */
#ifndef SOSC_SHADOW_H
#define SOSC_SHADOW_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

bool sosc_is_near(const struct sosc_loaded *image, uint64_t start, uint64_t size);
uint64_t sosc_map_near(const struct sosc_loaded *image, uint64_t size);
void sosc_shadow_rest(void);
uint64_t sosc_shadow_cell(const struct sosc_loaded *image, uint64_t slot);

#pragma GCC visibility pop

#endif
