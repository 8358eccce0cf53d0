// SPDX-License-Identifier: Apache-2.0
/**
 * The agent between two sessions.
 */
#ifndef SOSC_REST_H
#define SOSC_REST_H

#include "base/agent.h"

long soscope_agent_rest(uint64_t unused);

#endif
