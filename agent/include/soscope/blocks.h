// SPDX-License-Identifier: Apache-2.0
/**
 * Blocks and mappings, and the stacks of the calls that made them.
 *
 * The instrument's own memory is
 *
 *	struct sosc_blocks | buckets of u64 | words of u64
 *
 *	 | struct sosc_python[]
 *
 * Words hold stacks, one behind the other and never changed: a head, return addresses with
 * the innermost first, and behind them the frames of an interpreter (SOSC_FRAME_PYTHON), the
 * innermost first. A stack is named by the number of its head. A bucket is the upper half of
 * a stack's hash << 32 | its number, 0 = empty. Among the stacks lie codes, which frames of an
 * interpreter name by the number of their head (SOSC_STACK_CODE): struct sosc_code with what
 * belongs to it. All processes of the block share them. What happens to blocks are units of the
 * ring, struct sosc_block.
 */
#ifndef SOSCOPE_BLOCKS_H
#define SOSCOPE_BLOCKS_H

#include <stdint.h>

enum {
	SOSC_BLOCK_FRAMES = 64, // of a stack at most
	SOSC_STACK_API = 8, // in a head: the lowest bit of the api; below it: how many frames
	SOSC_STACK_CUT = 16, // in a head, a bit: there were more frames
	SOSC_STACK_CODE =
		17, // in a head, a bit: it is that of a code; then in the place of the api
	// the minor version of Python, and
	SOSC_STACK_SIZE = 32, // the lowest bit of how many words it has
	// A frame of Python: the number of its code, and
	SOSC_FRAME_INSTR = 32, // the lowest bit of the bytes from the code's first instruction
	SOSC_FRAME_INSTR_BITS = 30, // which may be below 0
	SOSC_FRAME_ENTRY = 62, // a bit: the function that runs Python code was called for this one,
	// and for those inside it that lie in front of it
	SOSC_FRAME_PYTHON = 63, // a bit
	SOSC_BLOCK_TICKS = 28, // bits of the ticks of BLOCK_OVER
};

enum sosc_block_api { // the outermost function that the program called
	SOSC_API_NONE = 0,
	SOSC_API_MALLOC = 1,
	SOSC_API_CALLOC = 2,
	SOSC_API_REALLOC = 3,
	SOSC_API_REALLOCARRAY = 4,
	SOSC_API_POSIX_MEMALIGN = 5,
	SOSC_API_ALIGNED_ALLOC = 6,
	SOSC_API_MEMALIGN = 7,
	SOSC_API_VALLOC = 8,
	SOSC_API_PVALLOC = 9,
	SOSC_API_NEW = 10,
	SOSC_API_NEW_ARRAY = 11,
	SOSC_API_MMAP = 12,
	SOSC_API_MREMAP = 13,
	SOSC_API_BRK = 14,
	SOSC_API_SBRK = 15,
};

enum sosc_block_mode {
	SOSC_BLOCKS_EXACT = 0,
	SOSC_BLOCKS_SAMPLE = 1,
	SOSC_BLOCKS_NONE = 3, // there is no memory
};

struct sosc_blocks {
	uint32_t bits; // of the number of buckets
	uint32_t mode; // enum sosc_block_mode
	uint64_t words; // there is room for
	uint64_t words_used; // agent adds; the first one is nobody's
	uint64_t stacks_lost; // calls whose stack found no room: they have stack 0
	uint64_t first_bucket; // offsets from this struct
	uint64_t first_word;
	// SAMPLE: bytes to the next one that is chosen, times 2^16, where chance is a half: the
	// number of bytes to it is 1 + -log2(of a number between 0 and 1) * this / 2^16
	uint64_t scale;
	uint64_t first_layout; // offset from this struct
	uint64_t layouts; // how many
};

#endif
