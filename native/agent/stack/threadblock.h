// SPDX-License-Identifier: Apache-2.0
/**
 * The C library's descriptor of a thread, which lies at its thread pointer. It tells where the
 * thread's stack is, and which thread it is. It is searched for typical words, because each library
 * has another layout.
 */
#ifndef SOSC_MEM_DESCRIPTOR_H
#define SOSC_MEM_DESCRIPTOR_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

enum { SOSC_BLOCK_WORDS = 4 }; // words of the descriptor that describe the block

struct sosc_thread_block {
	uint64_t addr, size; // the block that the C library has mapped for the thread
	uint64_t third; // the following word of the descriptor
};

uint32_t sosc_thread_block_at(void);
bool sosc_thread_block(uint32_t tid, uint64_t thread, struct sosc_thread_block *block);
bool sosc_thread_is_given(uint32_t tid, uint64_t thread, const struct sosc_thread_block *block,
			  uint64_t arg);

#pragma GCC visibility pop

#endif
