// SPDX-License-Identifier: Apache-2.0
/**
 * The C library's own struct of a thread, which lies at its thread pointer: where the thread's stack
 * is, and whose thread it is. It is searched for words, as each library has another one.
 */
#ifndef SOSC_MEM_DESCRIPTOR_H
#define SOSC_MEM_DESCRIPTOR_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

enum { SOSC_BLOCK_WORDS = 4 }; // of the struct that say where the block is

struct sosc_thread_block {
	uint64_t addr, size; // what the C library has mapped for a thread
	uint64_t third; // the word of the descriptor behind these
};

uint32_t sosc_thread_block_at(void);
bool sosc_thread_block(uint32_t tid, uint64_t thread, struct sosc_thread_block *block);
bool sosc_thread_is_given(uint32_t tid, uint64_t thread, const struct sosc_thread_block *block,
			  uint64_t arg);

#pragma GCC visibility pop

#endif
