// SPDX-License-Identifier: Apache-2.0
/**
 * The frames of Ruby in the stacks of blocks.
 */
#ifndef SOSC_RUBYSTACK_H
#define SOSC_RUBYSTACK_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_blocks;
struct sosc_loaded;
struct sosc_thread;

extern bool sosc_ruby_stacks; // there is an interpreter that can be read

void sosc_ruby_stacks_start(struct sosc_blocks *own);
void sosc_ruby_stacks_see(const struct sosc_loaded *image);
void sosc_ruby_stacks_forked(void);
void sosc_ruby_stacks_forget(const struct sosc_loaded *image);
uint32_t sosc_ruby_place(uint64_t code, uint64_t pc);
uint32_t sosc_ruby_stack(uint64_t *frames, uint32_t room, const struct sosc_thread *thread);

// code_x86_64_tls.c
bool sosc_first_tls(uint64_t code, uint32_t size, uint64_t *index, int64_t *offset);
uint64_t sosc_last_loaded(uint64_t code, uint32_t size, uint32_t tid);

#pragma GCC visibility pop

#endif
