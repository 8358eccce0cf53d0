// SPDX-License-Identifier: Apache-2.0
/**
 * The loader's lists of images; each has a C library, and an errno, of its own.
 */
#ifndef SOSC_NAMESPACE_H
#define SOSC_NAMESPACE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

struct sosc_namespace { // a list of the loader's
	struct link_map *first;
	bool consistent;
	bool removes; // images are about to go
};

extern int64_t sosc_errno_offsets[SOSC_NAMESPACES]; // from the thread pointer

void sosc_namespaces_init(const struct r_debug *r_debug, const struct sosc_loaded *loader);
bool sosc_errno_find(const struct sosc_loaded *libc);
uint32_t sosc_namespaces(struct sosc_namespace found[SOSC_NAMESPACES]);

#pragma GCC visibility pop

#endif
