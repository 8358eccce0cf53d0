// SPDX-License-Identifier: Apache-2.0
/** Loads of a function's address, and whether the address is used only for calls. */
#ifndef SOSC_LOADS_H
#define SOSC_LOADS_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

bool sosc_is_instruction(const struct sosc_loaded *image, uint64_t addr);
bool sosc_is_displacement(const struct sosc_loaded *image, uint64_t displacement);
void sosc_loads_rest(void);
bool sosc_load_is_called(const struct sosc_loaded *image, uint64_t displacement);

#pragma GCC visibility pop

#endif
