// SPDX-License-Identifier: Apache-2.0
/**
 * The frames of a thread that has released an interpreter's lock, as they were read last, with the
 * words by which they were found. One system call tells whether all these words are the same.
 */
#ifndef SOSC_CHAIN_H
#define SOSC_CHAIN_H

#include "base/agent.h"
#include "soscope/blocks.h"

#pragma GCC visibility push(hidden)

enum {
	CHAIN_WORDS = 800,
	CHAIN_PARTS = 32, // parts of memory
	CHAIN_BYTES = 12288,
};

// if any of this changes, the frames are different whatever their words are
struct sosc_chain_time {
	uint64_t state; // address of the thread's state
	uint32_t session;
	// counts events after which code objects may have ended, and other code may have their
	// addresses
	uint32_t ends;
};

struct sosc_chain {
	uint32_t busy; // in use, or abandoned by interrupted code
	uint32_t tid; // the thread's id, 0 if empty
	struct sosc_chain_time time;
	uint32_t words, parts, count;
	struct {
		uint64_t at; // its address; in a finished chain its offset in `copy`
		uint64_t value;
	} word[CHAIN_WORDS];
	struct sosc_chain_part { // memory that is read together
		uint64_t at, size;
	} part[CHAIN_PARTS];
	uint64_t size; // bytes of all parts
	uint64_t frames[SOSC_BLOCK_FRAMES];
	uint8_t copy[CHAIN_BYTES];
};

struct sosc_window { // a copy of memory
	uint64_t low, high; // addresses of the original
	uint8_t *copy; // has `room` bytes
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

/** Begin a new chain, or discard the present one. */
static inline void sosc_chain_begin(struct sosc_chain *chain)
{
	chain->tid = 0;
	chain->words = 0;
}

/** Note a word that has led to the next. */
static inline void sosc_chain_note(struct sosc_chain *chain, uint64_t at, uint64_t value)
{
	if (!chain)
		return;
	if (chain->words < CHAIN_WORDS) {
		chain->word[chain->words].at = at;
		chain->word[chain->words].value = value;
	}
	chain->words++; // else there are too many words to keep
}

/** Mark the chain as one that must not be kept. */
static inline void sosc_chain_spoil(struct sosc_chain *chain)
{
	if (chain)
		chain->words = CHAIN_WORDS + 1;
}

#pragma GCC visibility pop

#endif
