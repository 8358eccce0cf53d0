// SPDX-License-Identifier: Apache-2.0
/** Sections of an image, which can only be found in its file. */
#ifndef SOSC_SECTION_H
#define SOSC_SECTION_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

struct sosc_extent {
	uint64_t addr, size;
};

uint32_t sosc_find_sections(const struct sosc_loaded *image, const char *name, bool alone,
			    struct sosc_extent *ranges, uint32_t most);

#pragma GCC visibility pop

#endif
