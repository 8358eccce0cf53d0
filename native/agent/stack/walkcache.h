// SPDX-License-Identifier: Apache-2.0
/**
 * Memos: the result of a walk over a stack, with the words that it has read. The next call from
 * there only has to check that all these words are unchanged. Their addresses are known, so these
 * reads need not wait for each other.
 *
 * A signal handler may overwrite a memo while it is being compared. So the memory of a memo keeps
 * its layout as long as the thread has it: a word that was an address stays an address.
 */
#ifndef SOSC_WALKCACHE_H
#define SOSC_WALKCACHE_H

#include "stack/unwindrules.h"
#include "stack/walk.h"

#pragma GCC visibility push(hidden)

enum {
	MEMO_FRAMES = 2 * SOSC_BLOCK_FRAMES, // including an interpreter's frames
	MEMO_BITS = 7,
	MEMO_ROOMS = 6,
};

#define MEMO_FACTOR 0x9e3779b97f4a7c15ull

struct sosc_memo {
	uint64_t ret; // frame 0; in a free memo: address of the next one
	uint64_t sp, fp; // of the call; fp: 0 if the walk did not need it
	uint64_t key; // sosc_memo_key of the walk, 0 if not valid
	// end of the words that were read, 0 if each word can be read only if the words before it
	// are unchanged
	uint64_t high;
	uint64_t fp_mask; // all bits set if the walk needed fp
	uint32_t number; // number of the stack
	uint16_t pairs, words; // words that were read
	// number of return addresses, which are kept only if an interpreter has frames
	uint16_t count;
	uint16_t own; // number of the interpreter's frames, behind them
	uint16_t words_at; // offset from here in bytes
	uint8_t room; // index in `rooms`
	bool is_cut; // the stack had more frames
	// A frame pointer and the return address behind it; then words without such a neighbour,
	// and frames
	struct sosc_memo_pair {
		uint64_t addr;
		uint64_t value[2];
	} pair[];
};

struct sosc_memo_word {
	uint64_t addr;
	uint64_t value;
};

struct sosc_memo_need { // required room
	uint32_t pairs, words, frames;
};

struct sosc_memos { // all memos of a thread; at the start of its memory for them
	uint32_t tid_check; // of the owner, as in struct sosc_thread
	uint32_t busy; // a walk fills in a memo, or was abandoned in the middle
	uint32_t chunks; // number of the thread's chunks
	uint32_t next; // index of the memo to overwrite when no memory is left
	uint64_t at, end; // unused memory
	struct sosc_memo *free[MEMO_ROOMS];
	struct sosc_memo *of[1 << MEMO_BITS]; // indexed by sosc_memo_place
};

// walkcache.c
struct sosc_memos *sosc_memos_of(const struct sosc_thread *thread);
void sosc_memos_end(const struct sosc_thread *thread);
struct sosc_memo *sosc_memo_make(struct sosc_memos *memos, uint32_t place,
				 struct sosc_memo_need need);
uint64_t *sosc_memo_frames(struct sosc_memo *memo);
bool sosc_memo_has_room(const struct sosc_memo *memo, struct sosc_memo_need need);

static inline struct sosc_memo_word *sosc_memo_words(const struct sosc_memo *memo)
{
	return (struct sosc_memo_word *)((uint64_t)memo + memo->words_at);
}

static inline uint32_t sosc_memo_place(uint64_t ret, uint64_t sp)
{
	return (uint32_t)((ret ^ sp << 8) * MEMO_FACTOR >> (64 - MEMO_BITS));
}

// @has_own: an interpreter was asked for its frames, whether it had any or not.
static inline uint64_t sosc_memo_key(enum sosc_block_api api, bool has_own)
{
	return (uint64_t)__atomic_load_n(&sosc_rules_epoch, __ATOMIC_RELAXED) << 32 |
	       (uint64_t)has_own << 16 | api;
}

static inline bool sosc_memo_has_pair(const struct sosc_memo_pair *pair)
{
	const uint64_t *there = (const uint64_t *)pair->addr;

	return there[0] == pair->value[0] && there[1] == pair->value[1];
}

/**
 * Return whether every word that determined the walk is unchanged, so that a new walk would give
 * the same result. @high: the end of the stack that can be read. If the memo has no `high`, it has
 * no pairs, and its words are in the order of the walk.
 */
static inline bool sosc_memo_is_same(const struct sosc_memo *memo, uint64_t ret, uint64_t sp,
				     uint64_t fp, uint64_t high, uint64_t key)
{
	const struct sosc_memo_pair *pair = memo->pair, *pairs_end = pair + memo->pairs;
	const struct sosc_memo_word *word = sosc_memo_words(memo), *words_end = word + memo->words;
	uint64_t other = (memo->ret ^ ret) | (memo->sp ^ sp) | (memo->key ^ key) |
			 ((memo->fp ^ fp) & memo->fp_mask);

	if (other || memo->high > high)
		return false;
	for (; pair + 2 <= pairs_end; pair += 2) // half as many iterations
		if (!sosc_memo_has_pair(&pair[0]) || !sosc_memo_has_pair(&pair[1]))
			return false;
	if (pair < pairs_end && !sosc_memo_has_pair(pair))
		return false;
	for (; word < words_end; word++)
		if (*(const uint64_t *)word->addr != word->value)
			return false;
	return true;
}

/**
 * Return the number of the stack of a call in a program without an interpreter, or 0 if the stack
 * has to be walked.
 */
static inline uint32_t sosc_memo_stack(const struct sosc_view *view, uint64_t sp, uint64_t fp,
				       enum sosc_block_api api)
{
	uint64_t ret = *(const uint64_t *)sp;
	const struct sosc_memo *memo;
	uint32_t number;

	if (!view->memos || sp < view->low)
		return 0;
	memo = view->memos->of[sosc_memo_place(ret, sp)];
	if (!memo)
		return 0;
	// a signal handler may overwrite the memo meanwhile, and then the memo does not match
	number = __atomic_load_n(&memo->number, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!sosc_memo_is_same(memo, ret, sp, fp, view->high, sosc_memo_key(api, false)))
		return 0;
	return number;
}

#pragma GCC visibility pop

#endif
