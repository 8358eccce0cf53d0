// SPDX-License-Identifier: Apache-2.0
/**
 * The jump over the loader's empty function, and instructions that do nothing.
 */
#ifndef SOSC_JUMP_H
#define SOSC_JUMP_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

// bytes to read in order to recognise an empty function and the padding behind it
enum { SOSC_EMPTY_FUNCTION = 24 };

uint32_t sosc_nop_size(const uint8_t *code, const uint8_t *end);
bool sosc_jump(uint64_t at, uint64_t to, const uint8_t old[SOSC_EMPTY_FUNCTION], uint8_t code[8]);

#pragma GCC visibility pop

#endif
