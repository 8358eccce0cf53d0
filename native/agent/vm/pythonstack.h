// SPDX-License-Identifier: Apache-2.0
/**
 * The frames of Python in stacks.
 */
#ifndef SOSC_PYTHONSTACK_H
#define SOSC_PYTHONSTACK_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_blocks;
struct sosc_loaded;
struct sosc_thread;

extern bool sosc_python_stacks; // there is an interpreter that can be read

void sosc_python_stacks_start(const struct sosc_blocks *given, struct sosc_blocks *own);
void sosc_python_stacks_see(const struct sosc_loaded *image);
void sosc_python_stacks_forked(void);
void sosc_python_stacks_forget(const struct sosc_loaded *image);
uint32_t sosc_python_stack(uint64_t *frames, uint32_t room, const struct sosc_thread *thread);

#pragma GCC visibility pop

#endif
