// SPDX-License-Identifier: Apache-2.0
/**
 * The start, and the agent at rest between two sessions.
 */
#ifndef SOSC_START_H
#define SOSC_START_H

#include "base/agent.h"

long soscope_agent_start(const struct sosc_start *start);
long soscope_agent_rest(uint64_t unused);
void sosc_trap(void);

#endif
