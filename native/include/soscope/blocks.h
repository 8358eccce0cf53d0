// SPDX-License-Identifier: Apache-2.0
/**
 * Blocks and mappings, and the stacks of calls: of those that made them, or of those that TRACE
 * records (SOSC_PLAN_STACKS).
 *
 * The instrument's own memory is
 *
 *	struct sosc_blocks | buckets of u64 | words of u64
 *
 *	 | struct sosc_python[]
 *
 * Words hold stacks, one behind the other and never changed: a head, return addresses with
 * the innermost first, each with its image if another one was there before
 * (SOSC_IMAGE_SHIFT), and behind them the frames of an interpreter (SOSC_FRAME_PYTHON), the
 * innermost first. A stack is named by the number of its head. A bucket is the upper half of
 * a stack's hash << 32 | its number, 0 = empty. Among the stacks lie codes, which frames of an
 * interpreter name by the number of their head (SOSC_STACK_CODE): struct sosc_code with what
 * belongs to it. All processes of the block share them. What happens to blocks are units of the
 * ring, struct sosc_block.
 *
 * With COUNT, blocks are counted by function and size class, and no unit tells of them. Behind the
 * words are then
 *
 *	struct sosc_sizes[arrays]
 *
 * Each thread takes one and counts in it alone; the first one is for all threads that find none
 * left. Stacks are those of mappings, and have no frames.
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
	// the minor version of Python, or SOSC_CODE_RUBY, and
	SOSC_STACK_SIZE = 32, // the lowest bit of how many words it has
	SOSC_CODE_RUBY = 0,
	// A frame of Python or Ruby: the number of its code, and
	SOSC_FRAME_INSTR = 32, // the lowest bit of the bytes from the code's first instruction
	SOSC_FRAME_INSTR_BITS = 30, // which may be below 0; of Ruby it is the line
	SOSC_FRAME_ENTRY = 62, // a bit: the function that runs its code was called for this one,
	// and for those inside it that lie in front of it
	SOSC_FRAME_PYTHON = 63, // a bit
	SOSC_FRAME_SOSCOPE = 1, // no address: soscope has had the interpreter run code of its own
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
	SOSC_API_PTHREAD_CREATE = 16, // its thread's stack
	SOSC_API_THRD_CREATE = 17,
};

enum sosc_block_mode {
	SOSC_BLOCKS_EXACT = 0,
	SOSC_BLOCKS_SAMPLE = 1,
	SOSC_BLOCKS_COUNT = 2,
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
	uint64_t first_array; // COUNT: offset of struct sosc_sizes[]
	uint32_t arrays;
	uint32_t arrays_used; // threads that have asked for one; 1 at the beginning
	uint64_t leads; // EXACT: agent adds SOSC_LEAD_NEXT; what it gives is nobody else's
	uint32_t ruby; // agent: enum sosc_ruby_frames
	uint32_t python; // agent: enum sosc_python_frames
	uint64_t threads_lost; // agent: threads that were made and whose stacks are not known
	uint64_t has_allocator; // agent: 1: the program itself defines malloc
	uint32_t frames; // of a stack at most, up to SOSC_BLOCK_FRAMES; 0: as many as those
	uint32_t has_xsave; // the processor has XSAVE, and the kernel lets programs use it
	// EXACT: the thread that has the lead (a number out of `leads`), or flags; on a cache line of
	// its own. It counts up from a time that it has read. Whoever else records an event takes
	// the lead away first. A thread without it reads the clock for each event.
	uint64_t lead;
	uint64_t reserved1[7];
};

enum {
	SOSC_LEAD_NOBODY = 1, // flags of `lead`: it may be taken
	SOSC_LEAD_NEVER = 2, // nobody is to have it: other programs are recorded, too
	SOSC_LEAD_NEXT = 4,
};

enum sosc_ruby_frames { // why stacks have no frames of Ruby, though there is one
	SOSC_RUBY_FINE = 0,
	SOSC_RUBY_NO_FUNCTION = 1, // it lacks one that is needed
	SOSC_RUBY_NO_LAYOUT = 2, // its version is not known
	SOSC_RUBY_NO_CONTEXT = 3, // its threads' states are not found
	SOSC_RUBY_WRONG = 4, // it says itself that it has other frames
};

enum sosc_python_frames { // why stacks have no frames of Python, though there is one
	SOSC_PYTHON_FINE = 0,
	SOSC_PYTHON_NO_FUNCTION = 1, // it lacks one that is needed
	SOSC_PYTHON_NO_LAYOUT = 2, // its version is not known
	SOSC_PYTHON_NO_GIL = 3, // a free-threaded build
	SOSC_PYTHON_DEBUG = 4, // a debug build
};

// Size classes: up to SOSC_SIZES_FINE bytes each has SOSC_SIZES_STEP sizes, the first one 0, too
// (0 to 16, 17 to 32, ...); above, a class goes to twice the size of the one in front.
enum {
	SOSC_SIZES_STEP = 16,
	SOSC_SIZES_FINE = 1024,
	SOSC_SIZES_CLASSES = 128,
	SOSC_SIZES_APIS = 12, // functions that make blocks are below this
};

struct sosc_size_class {
	uint64_t made; // blocks
	uint64_t made_bytes;
	uint64_t freed;
	uint64_t freed_bytes;
};

struct sosc_sizes { // of one thread
	uint32_t pid; // as the process knows it; 0: of nobody
	uint32_t tid;
	uint64_t strange; // frees of blocks that are not known
	uint64_t untracked; // blocks of which no memory takes note: nobody knows when they go
	uint64_t untracked_bytes;
	uint8_t classes[49152]; // struct sosc_size_class [APIS][CLASSES]
};

#endif
