// SPDX-License-Identifier: Apache-2.0
/** Stacks of threads: mappings that the C library makes and removes without calls through slots. */
#ifndef SOSC_MEM_THREADS_H
#define SOSC_MEM_THREADS_H

#include "base/arch.h"
#include "blocks/blocks.h"

#pragma GCC visibility push(hidden)

struct sosc_blocks;
struct sosc_call;
struct sosc_candidate;
struct sosc_made_thread;

struct sosc_thread_way { // returned to the assembly in two registers
	uint64_t start;
	uint64_t arg;
};

void sosc_made_threads_start(struct sosc_blocks *own);
void sosc_made_threads_rest(void);
uint64_t sosc_made_threads_hooked(const struct sosc_candidate *at);
void sosc_made_threads_released(const struct sosc_call *call);

void sosc_h_block_pthread_create(void);
void sosc_h_block_thrd_create(void);
void sosc_h_block_tryjoin(void);
void sosc_h_thread_begins(void);
uint64_t sosc_block_pthread_create(struct sosc_mapping_call *said);
uint64_t sosc_block_thrd_create(struct sosc_mapping_call *said);
uint64_t sosc_block_tryjoin(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			    struct sosc_cell *cell);
struct sosc_thread_way sosc_thread_begins(struct sosc_made_thread *made);

#pragma GCC visibility pop

#endif
