// SPDX-License-Identifier: Apache-2.0
/**
 * Slots that are not bound yet.
 */
#ifndef SOSC_LAZY_H
#define SOSC_LAZY_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_candidate;
struct sosc_loaded;

enum sosc_lazy_way {
	BOUND,
	LAZY_PUSH, // each PLT entry pushes the index
	LAZY_REGISTER, // PLT entries pass the index to PLT0 in a register (mold), or cannot be read
};

enum sosc_lazy_way sosc_lazy_way(const struct sosc_loaded *image, uint64_t value, uint64_t index);
bool sosc_redirect_binding(const struct sosc_candidate *at, uint64_t target);

#pragma GCC visibility pop

#endif
