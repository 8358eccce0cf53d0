// SPDX-License-Identifier: Apache-2.0
/**
 * The start.
 */
#ifndef SOSC_START_H
#define SOSC_START_H

#include "base/agent.h"

long soscope_agent_start(const struct sosc_start *start);
void sosc_trap(void);

#endif
