// SPDX-License-Identifier: Apache-2.0
/** Images that are loaded and unloaded. */
#ifndef SOSC_LOADER_H
#define SOSC_LOADER_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

void sosc_loader_changed(void);
int sosc_images_start(const struct sosc_start *start);

#pragma GCC visibility pop

#endif
