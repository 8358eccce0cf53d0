// SPDX-License-Identifier: Apache-2.0
/**
 * The start, and where the blob lies.
 */
#ifndef SOSC_START_H
#define SOSC_START_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

extern uint64_t sosc_base; // of the blob
extern uint64_t sosc_stack_end; // of the first thread, as soscope has said; 0: unknown
extern uint8_t sosc_scratch[SOSC_SCRATCH];

/** Whether @addr is in the agent's code, trampolines included. */
static inline bool sosc_is_ours(uint64_t addr)
{
	return addr - sosc_base < SOSC_BLOB_DATA;
}

#pragma GCC visibility pop

long soscope_agent_start(const struct sosc_start *start);
void sosc_trap(void);

#endif
