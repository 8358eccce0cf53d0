// SPDX-License-Identifier: Apache-2.0
/**
 * How to find the caller's frame: what the unwind tables contain for a return address, in one word.
 */
#ifndef SOSC_UNWINDRULES_H
#define SOSC_UNWINDRULES_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

enum sosc_frame_rule {
	RULE_NONE = 0, // the address is not a return address
	RULE_LAST = 1, // there is no caller, or its frame cannot be found
	RULE_SP = 2, // the CFA is `bytes` from the stack pointer
	RULE_FP = 3, // the CFA is `bytes` from the frame pointer
	RULE_AT_FP = 4, // the CFA is stored `bytes` from the frame pointer
	RULE_SIGNAL = 5, // a frame made by the kernel: a signal handler returns here
	RULE_GUESS = 6, // as RULE_FP, for code without an unwind table
};

// A rule: kind << RULE_KIND | (bytes / 8 + RULE_MIDDLE) << RULE_BYTES | place of the caller's frame
// pointer. The place is 0 if the frame pointer is still in its register, or its distance below the
// CFA in words, or one of these.
enum {
	RULE_KIND = 28,
	RULE_BYTES = 8,
	RULE_BYTES_MASK = (1 << 20) - 1,
	RULE_MIDDLE = 1 << 19,
	RULE_FP_MASK = 0xff,
	RULE_FP_THERE = 0xfe, // stored where the frame pointer points
	RULE_FP_LOST = 0xff, // unknown
	RULE_BITS = 31,
};

// The rule for code that keeps frame pointers, used if there are no tables.
#define RULE_POINTER ((uint32_t)RULE_GUESS << RULE_KIND | (RULE_MIDDLE + 2) << RULE_BYTES | 2)

// Rules by return address, in pairs. An entry is the lower bits of the address times a factor (the
// upper bits select the pair) << RULE_BITS | rule. It is a single word, so any thread or signal
// handler can fill it in.
enum {
	RULE_ADDR_BITS = 47,
	RULE_PAIR_BITS = 14,
	RULE_TAG_BITS = RULE_ADDR_BITS - RULE_PAIR_BITS,
};

#define RULE_FACTOR 0x3c6ef372fe95ull // odd, so no two addresses have the same product

_Static_assert(RULE_TAG_BITS + RULE_BITS == 64, "a word of the cache");

extern uint64_t sosc_rules[2 << RULE_PAIR_BITS];
extern uint32_t
	// counts images that were loaded or unloaded, and interpreters that were found
	sosc_rules_epoch;
extern bool sosc_rules_used;
// images are about to be unloaded, and a guess may lead to one of them
extern uint32_t sosc_rules_held;

// code_x86_64_frames.c
bool sosc_is_behind_call(const uint8_t *code);
bool sosc_returns_from_signal(const uint8_t *code);
bool sosc_is_plt_rule(const uint8_t *shape, uint64_t size, uint64_t addr, int64_t *bytes);

uint32_t sosc_rule_learn(uint64_t addr, bool is_guessed);
uint32_t sosc_rule_interrupted(uint64_t addr, bool is_guessed);
void sosc_rules_wipe(void);
void sosc_rules_wait(void);
void sosc_rules_forked(void);

/**
 * Return the rule of a return address; RULE_NONE if it is not one. @is_guessed: it is not certain
 * that its image is in use.
 */
static inline uint32_t sosc_rule_of(uint64_t addr, bool is_guessed)
{
	uint64_t product = addr * RULE_FACTOR & ((1ull << RULE_ADDR_BITS) - 1);
	const uint64_t *pair = &sosc_rules[product >> RULE_TAG_BITS << 1];
	uint64_t tag = product & ((1ull << RULE_TAG_BITS) - 1);

	for (int i = 0; i < 2; i++) {
		uint64_t word = __atomic_load_n(&pair[i], __ATOMIC_RELAXED);

		if (word >> RULE_BITS == tag && word && !(addr >> RULE_ADDR_BITS))
			return (uint32_t)word & ((1u << RULE_BITS) - 1);
	}
	return sosc_rule_learn(addr, is_guessed);
}

/** Kept walks may have passed through other images: walk again. The rules stay valid. */
static inline void sosc_rules_renew(void)
{
	__atomic_fetch_add(&sosc_rules_epoch, 1, __ATOMIC_RELAXED);
}

/** Images were unloaded. Inline, so that sessions without rules need not load the code page. */
static inline void sosc_rules_forget(void)
{
	sosc_rules_renew();
	if (__atomic_load_n(&sosc_rules_used, __ATOMIC_RELAXED))
		sosc_rules_wipe();
}

/**
 * Images are about to be unloaded (@held), or have been unloaded. In between no thread reads code
 * or tables to which a guess leads. Inline for the same reason.
 */
static inline void sosc_rules_hold(bool held)
{
	__atomic_store_n(&sosc_rules_held, held, __ATOMIC_SEQ_CST);
	if (held && __atomic_load_n(&sosc_rules_used, __ATOMIC_RELAXED))
		sosc_rules_wait();
}

#pragma GCC visibility pop

#endif
