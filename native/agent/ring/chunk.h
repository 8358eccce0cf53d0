// SPDX-License-Identifier: Apache-2.0
/** Chunks of the ring by their index, and preparing a chunk for its next owner. */
#ifndef SOSC_CHUNK_H
#define SOSC_CHUNK_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_thread;

void sosc_chunks_forget(void);
uint32_t *sosc_chunk_state_at(uint32_t index);
struct sosc_chunk *sosc_chunk_at(uint32_t index);
bool sosc_chunk_is_same(uint32_t process);
uint32_t sosc_chunks_usual(void); // number of chunks that are not spare
uint64_t sosc_chunk_prepare(uint32_t index, const struct sosc_thread *thread, uint32_t process);

#pragma GCC visibility pop

#endif
