// SPDX-License-Identifier: Apache-2.0
/** The loader's lists of images. Each namespace has its own C library and its own errno. */
#ifndef SOSC_NAMESPACE_H
#define SOSC_NAMESPACE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

struct sosc_namespace { // one of the loader's lists
	struct link_map *first;
	bool consistent;
	bool removes; // images are about to be unloaded
};

extern int64_t sosc_errno_offsets[SOSC_NAMESPACES]; // offsets of errno from the thread pointer

void sosc_namespaces_init(const struct r_debug *r_debug, const struct sosc_loaded *loader);
bool sosc_errno_find(const struct sosc_loaded *libc);
uint32_t sosc_namespaces(struct sosc_namespace found[SOSC_NAMESPACES]);

#pragma GCC visibility pop

#endif
