// SPDX-License-Identifier: Apache-2.0
/**
 * What a walk over a stack has come to, and what it has read, so that the next call from there only
 * has to see whether all of it is the same: the words lie at addresses that are known, and need not
 * wait for each other.
 *
 * A signal handler may make another memo of one that is being compared. So a place for a memo keeps its
 * room as long as its thread has it: where there was the address of a word, there is one.
 */
#ifndef SOSC_WALKCACHE_H
#define SOSC_WALKCACHE_H

#include "stack/unwindrules.h"
#include "stack/walk.h"

#pragma GCC visibility push(hidden)

enum {
	MEMO_FRAMES = 2 * SOSC_BLOCK_FRAMES, // an interpreter's among them
	MEMO_BITS = 7,
	MEMO_ROOMS = 6,
};

#define MEMO_FACTOR 0x9e3779b97f4a7c15ull

struct sosc_memo {
	uint64_t ret; // frame 0; of a place that is free: the next one
	uint64_t sp, fp; // of the call; fp: 0 where the walk did not need it
	uint64_t key; // sosc_memo_key of the walk, 0: nothing is here
	uint64_t high; // behind the words that were read; 0: each of them is there if those in front
	// of it are what they were
	uint64_t fp_mask; // all bits if the walk needed fp
	uint32_t number; // of the stack
	uint16_t pairs, words; // that were read
	uint16_t count; // of its return addresses, which are kept if an interpreter has frames
	uint16_t own; // of those, behind them
	uint16_t words_at; // bytes from here
	uint8_t room; // which one it has
	bool is_cut; // there were more frames
	// A frame pointer and the return address behind it; then words that have no such neighbour,
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

struct sosc_memo_need { // so many of them
	uint32_t pairs, words, frames;
};

struct sosc_memos { // of a thread; at the beginning of the memory that it has for them
	uint32_t tid_check; // whose they are, as in a struct sosc_thread
	uint32_t busy; // a walk fills one, or was left in the middle
	uint32_t chunks; // that the thread has
	uint32_t next; // whose place is taken when there is no memory left
	uint64_t at, end; // memory that is not used yet
	struct sosc_memo *free[MEMO_ROOMS];
	struct sosc_memo *of[1 << MEMO_BITS]; // by sosc_memo_place
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
 * Every word that decided the walk is what it was: it would be the same. @high: how far the stack
 * can be read. If that says nothing there are no pairs, and words are in the order of the walk.
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
	for (; pair + 2 <= pairs_end; pair += 2) // half as many turns
		if (!sosc_memo_has_pair(&pair[0]) || !sosc_memo_has_pair(&pair[1]))
			return false;
	if (pair < pairs_end && !sosc_memo_has_pair(pair))
		return false;
	for (; word < words_end; word++)
		if (*(const uint64_t *)word->addr != word->value)
			return false;
	return true;
}

/** The number of a stack of a program without an interpreter, 0: it has to be walked. */
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
	// a signal handler may make another one of it meanwhile, which is not the same then
	number = __atomic_load_n(&memo->number, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!sosc_memo_is_same(memo, ret, sp, fp, view->high, sosc_memo_key(api, false)))
		return 0;
	return number;
}

#pragma GCC visibility pop

#endif
