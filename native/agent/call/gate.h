// SPDX-License-Identifier: Apache-2.0
/** Gates: whether the calls of a process are recorded at present. */
#ifndef SOSC_GATE_H
#define SOSC_GATE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

void sosc_gate_start(void);
void sosc_gate_forked(void);
void sosc_gate_rest(void);
uint64_t sosc_gated(uint64_t handler, uint64_t gated);

// The handler @name, or its variant that checks the gate first.
#define SOSC_GATED(name) sosc_gated((uint64_t)(name), (uint64_t)name##_gated)

#pragma GCC visibility pop

#endif
