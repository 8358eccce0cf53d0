// SPDX-License-Identifier: Apache-2.0
/**
 * Memory that may be read-only, or not there.
 */
#ifndef SOSC_MEMORY_H
#define SOSC_MEMORY_H

#include "agent.h"

#pragma GCC visibility push(hidden)

bool sosc_write(uint64_t addr, const void *bytes, uint64_t size, bool text);
void sosc_write_often(bool often);
uint64_t sosc_read(uint32_t pid, void *to, uint64_t from, uint64_t size);
bool sosc_protect(uint64_t start, uint64_t end, int prot);

#pragma GCC visibility pop

#endif
