// SPDX-License-Identifier: Apache-2.0
/**
 * The frames of a thread that has let go of an interpreter's lock, as they were when they were read
 * last, with the words that have led to them. One system call tells whether all of these are the same.
 */
#ifndef SOSC_CHAIN_H
#define SOSC_CHAIN_H

#include "base/agent.h"
#include "soscope/blocks.h"

#pragma GCC visibility push(hidden)

enum {
	CHAIN_WORDS = 800,
	CHAIN_PARTS = 32, // of memory
	CHAIN_BYTES = 12288,
};

struct sosc_chain_time { // what makes frames others, whatever their words are
	uint64_t state; // the thread's
	uint32_t session;
	uint32_t ends; // counts what lets code end: other code may have its address then
};

struct sosc_chain {
	uint32_t busy; // somebody reads it, makes it, or was left in the middle
	uint32_t tid; // whose it is; 0: nobody's
	struct sosc_chain_time time;
	uint32_t words, parts, count;
	struct {
		uint64_t at; // its address; of a chain that is kept: its place in `copy`
		uint64_t value;
	} word[CHAIN_WORDS];
	struct sosc_chain_part { // of memory, which is read at once
		uint64_t at, size;
	} part[CHAIN_PARTS];
	uint64_t size; // of all parts
	uint64_t frames[SOSC_BLOCK_FRAMES];
	uint8_t copy[CHAIN_BYTES];
};

struct sosc_window { // a copy of memory
	uint64_t low, high; // its addresses
	uint8_t *copy; // of `room` bytes
	uint64_t room;
};

bool sosc_chains_init(void);
void sosc_chains_forked(void);
struct sosc_chain *sosc_chain_take(uint32_t tid);
bool sosc_parts_read(uint32_t tid, void *to, const struct sosc_chain_part *parts, uint32_t count,
		     uint64_t size);
void sosc_chain_leave(struct sosc_chain *chain);
bool sosc_chain_is_same(struct sosc_chain *chain, uint32_t tid, const struct sosc_chain_time *time);
void sosc_chain_keep(struct sosc_chain *chain, uint32_t tid, const struct sosc_chain_time *time,
		     const uint64_t *frames, uint32_t count);
uint64_t sosc_window_at(struct sosc_window *window, uint32_t tid, uint64_t addr, uint64_t size,
			uint64_t low, uint64_t high);

/** A new one begins, or what it has so far is none. */
static inline void sosc_chain_begin(struct sosc_chain *chain)
{
	chain->tid = 0;
	chain->words = 0;
}

/** A word has led on. */
static inline void sosc_chain_note(struct sosc_chain *chain, uint64_t at, uint64_t value)
{
	if (!chain)
		return;
	if (chain->words < CHAIN_WORDS) {
		chain->word[chain->words].at = at;
		chain->word[chain->words].value = value;
	}
	chain->words++; // or there are too many to keep
}

/** It is not to be kept. */
static inline void sosc_chain_spoil(struct sosc_chain *chain)
{
	if (chain)
		chain->words = CHAIN_WORDS + 1;
}

#pragma GCC visibility pop

#endif
