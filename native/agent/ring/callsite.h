// SPDX-License-Identifier: Apache-2.0
/**
 * Call sites by number: one for each (return address, slot). The numbers are the same in all
 * processes that share a control block.
 */
#ifndef SOSC_CALLSITE_H
#define SOSC_CALLSITE_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

uint32_t sosc_call_site(uint64_t ret, uint32_t slot);

#pragma GCC visibility pop

#endif
