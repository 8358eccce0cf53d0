// SPDX-License-Identifier: Apache-2.0
/** Answers to unwinders that look up the trampolines' code. */
#ifndef SOSC_UNWIND_H
#define SOSC_UNWIND_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

typedef int sosc_iterate_callback(struct dl_phdr_info *info, size_t size, void *data);
typedef int sosc_iterate(sosc_iterate_callback *callback, void *data);

void sosc_unwind_init(void);
void sosc_unwind_hook(struct sosc_loaded *image);

// Called from assembly
int sosc_iterate_first(sosc_iterate_callback *callback, void *data, sosc_iterate *original);

#pragma GCC visibility pop

#endif
