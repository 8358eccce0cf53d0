// SPDX-License-Identifier: Apache-2.0
/**
 * The frames of Ruby in the stacks of blocks.
 */
#ifndef SOSC_RUBYSTACK_H
#define SOSC_RUBYSTACK_H

#include "base/instrument.h"

#pragma GCC visibility push(hidden)

struct sosc_blocks;
struct sosc_loaded;
struct sosc_thread;

void sosc_ruby_stacks_start(const struct sosc_blocks *given, struct sosc_blocks *own);
void sosc_ruby_stacks_see(const struct sosc_loaded *image);
void sosc_ruby_stacks_forked(void);
void sosc_ruby_stacks_forget(const struct sosc_loaded *image);
uint32_t sosc_ruby_place(uint64_t code, uint64_t pc);
uint32_t sosc_ruby_stack(uint64_t *frames, uint32_t room, const struct sosc_thread *thread);

// code_x86_64_tls.c
bool sosc_first_tls(uint64_t code, uint32_t size, uint64_t *index, int64_t *offset);
uint64_t sosc_last_loaded(uint64_t code, uint32_t size, uint32_t tid);

/** Fill in the table. Inline, so that sessions without stacks need not load the code page. */
static inline void sosc_language_ruby(void)
{
	struct sosc_language *language = &sosc_languages[SOSC_LANGUAGE_RUBY];

	language->start = sosc_ruby_stacks_start;
	language->see = sosc_ruby_stacks_see;
	language->forked = sosc_ruby_stacks_forked;
	language->forget = sosc_ruby_stacks_forget;
	language->stack = sosc_ruby_stack;
}

#pragma GCC visibility pop

#endif
