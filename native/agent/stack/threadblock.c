// SPDX-License-Identifier: Apache-2.0
// What the C library knows of a thread, read without its help: the thread may be another one than the
// one that asks, and over and gone by now.

#include "stack/threadblock.h"
#include "base/memory.h"

enum {
	DESCRIPTOR = 2560, // bytes of the struct
	ABOVE = 65536, // bytes of a stack's block that may lie above it
	USER_BITS = 47,
	START = 64, // bytes at a stack's end in which musl has what a thread begins with
};

static uint32_t offset; // of a stack's address in the descriptor, in words; 0: not known yet

/** How far from a thread pointer the words are that say where the stack is; 0: not known yet. */
uint32_t sosc_thread_block_at(void)
{
	return __atomic_load_n(&offset, __ATOMIC_RELAXED) * 8;
}

// Whether these words of the descriptor at @thread name the block that it is in: its address and
// size; then the size of the guard, twice (glibc), or the stack's own end in it and size (musl).
static bool is_block(const uint64_t words[SOSC_BLOCK_WORDS], uint64_t thread)
{
	uint64_t addr = words[0], size = words[1], third = words[2];
	bool is_guard = !(third & (SOSC_PAGE - 1)) && third < size;

	if (addr & (SOSC_PAGE - 1) || !addr || addr >> USER_BITS || size & 15 ||
	    thread - addr >= size || addr + size - thread > ABOVE)
		return false;
	return (is_guard || third - addr <= size) && words[3] < size;
}

// How many words of a descriptor lie in front of the words of the block, 0: not found.
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
 * Where the block of @thread is. @tid: the thread that asks, 0: its words are there for certain, and
 * it is known where.
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

/** Whether @thread was made with this argument for its function, which no other one has. */
bool sosc_thread_is_given(uint32_t tid, uint64_t thread, const struct sosc_thread_block *block,
			  uint64_t arg)
{
	return mentions(tid, thread, DESCRIPTOR, arg) ||
	       mentions(tid, block->third - START, START, arg);
}
