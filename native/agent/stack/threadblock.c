// SPDX-License-Identifier: Apache-2.0
// What the C library stores about a thread, read without its help: the thread may be another one
// than the caller, and may have ended.

#include "stack/threadblock.h"
#include "base/memory.h"

enum {
	DESCRIPTOR = 2560, // bytes of the descriptor that are searched
	ABOVE = 65536, // most bytes of a stack's block that may lie above the descriptor
	USER_BITS = 47,
	START = 64, // bytes at a stack's end where musl stores the start arguments of the thread
};

// offset of the stack's address in the descriptor, in words, 0 if not known yet
static uint32_t offset;

/**
 * Return the offset from a thread pointer of the words that describe the stack, or 0 if not known
 * yet.
 */
uint32_t sosc_thread_block_at(void)
{
	return __atomic_load_n(&offset, __ATOMIC_RELAXED) * 8;
}

// Returns whether these words of the descriptor at @thread describe the block that contains it:
// address and size, then either the size of the guard, twice (glibc), or the end of the stack in
// the block, and its size (musl).
static bool is_block(const uint64_t words[SOSC_BLOCK_WORDS], uint64_t thread)
{
	uint64_t addr = words[0], size = words[1], third = words[2];
	bool is_guard = !(third & (SOSC_PAGE - 1)) && third < size;

	if (addr & (SOSC_PAGE - 1) || !addr || addr >> USER_BITS || size & 15 ||
	    thread - addr >= size || addr + size - thread > ABOVE)
		return false;
	return (is_guard || third - addr <= size) && words[3] < size;
}

// Returns the offset of the words that describe the block, in words, or 0 if not found.
static __attribute__((noinline)) uint32_t find(uint32_t tid, uint64_t thread)
{
	uint64_t words[DESCRIPTOR / 8];
	uint32_t count = (uint32_t)(sosc_read(tid, words, thread, DESCRIPTOR) / 8);

	for (uint32_t i = 1; i + SOSC_BLOCK_WORDS < count; i++)
		if (is_block(&words[i], thread))
			return i;
	return 0;
}

/**
 * Find the block of @thread. @tid is the id of the calling thread. @tid is 0 if the words can
 * certainly be read and their offset is known.
 */
bool sosc_thread_block(uint32_t tid, uint64_t thread, struct sosc_thread_block *block)
{
	uint32_t at = __atomic_load_n(&offset, __ATOMIC_RELAXED);
	uint64_t words[SOSC_BLOCK_WORDS];

	if (!at)
		at = find(tid, thread);
	if (!at)
		return false;
	if (!tid)
		memcpy(words, (const void *)(thread + at * 8), sizeof(words));
	else if (sosc_read(tid, words, thread + at * 8, sizeof(words)) != sizeof(words))
		return false;
	if (!is_block(words, thread))
		return false;
	__atomic_store_n(&offset, at, __ATOMIC_RELAXED);
	block->addr = words[0];
	block->size = (words[1] + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
	block->third = words[2];
	return true;
}

static bool mentions(uint32_t tid, uint64_t from, uint64_t size, uint64_t word)
{
	uint64_t words[DESCRIPTOR / 8], bytes = sosc_read(tid, words, from, size);

	for (uint32_t i = 0; i < bytes / 8; i++)
		if (words[i] == word)
			return true;
	return false;
}

/**
 * Return whether @thread was created with this argument for its function, which no other thread
 * has.
 */
bool sosc_thread_is_given(uint32_t tid, uint64_t thread, const struct sosc_thread_block *block,
			  uint64_t arg)
{
	return mentions(tid, thread, DESCRIPTOR, arg) ||
	       mentions(tid, block->third - START, START, arg);
}
