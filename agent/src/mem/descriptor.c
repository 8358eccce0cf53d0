// SPDX-License-Identifier: Apache-2.0
// What the C library knows of a thread, read without its help: the thread may be another one than the
// one that asks, and over and gone by now.

#include "descriptor.h"
#include "memory.h"

enum {
	DESCRIPTOR = 2560, // bytes of the struct
	ABOVE = 65536, // bytes of a stack's block that may lie above it
	WORDS = 4, // that say where the block is
	USER_BITS = 47,
	START = 64, // bytes at a stack's end in which musl has what a thread begins with
};

static uint32_t offset; // of a stack's address in the descriptor, in words; 0: not known yet

/** Whether a thread can tell of itself without a look at what may not be there. */
bool sosc_thread_blocks_known(void)
{
	return __atomic_load_n(&offset, __ATOMIC_RELAXED);
}

// Whether these words of the descriptor at @thread name the block that it is in: its address and
// size; then the size of the guard, twice (glibc), or the stack's own end in it and size (musl).
static bool is_block(const uint64_t words[WORDS], uint64_t thread)
{
	uint64_t addr = words[0], size = words[1], third = words[2];
	bool is_guard = !(third & (SOSC_PAGE - 1)) && third < size;

	if (addr & (SOSC_PAGE - 1) || !addr || addr >> USER_BITS || size & 15 ||
	    thread - addr >= size || addr + size - thread > ABOVE)
		return false;
	return (is_guard || third - addr <= size) && words[3] < size;
}

// Reads words of this process, as thread @tid; 0: they are there. How many bytes could be read.
static uint64_t read_words(uint32_t tid, uint64_t *words, uint64_t from, uint64_t size)
{
	if (tid)
		return sosc_read(tid, words, from, size);
	memcpy(words, (const void *)from, size);
	return size;
}

/**
 * Where the block of @thread is. @tid: the thread that asks, 0: @thread itself; only the first one
 * ever has to read as far as it may.
 */
bool sosc_thread_block(uint32_t tid, uint64_t thread, struct sosc_thread_block *block)
{
	uint64_t words[DESCRIPTOR / 8], bytes;
	uint32_t at = __atomic_load_n(&offset, __ATOMIC_RELAXED), i = 0, end;

	bytes = at ? read_words(tid, words, thread + at * 8, WORDS * 8) :
		     read_words(tid, words, thread, DESCRIPTOR);
	end = (uint32_t)bytes / 8;
	while (!at && i + WORDS < end && !is_block(&words[i], thread))
		i++;
	if (i + WORDS > end || !is_block(&words[i], thread))
		return false;
	if (!at)
		__atomic_store_n(&offset, i, __ATOMIC_RELAXED);
	block->addr = words[i];
	block->size = (words[i + 1] + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
	block->third = words[i + 2];
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
