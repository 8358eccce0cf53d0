// SPDX-License-Identifier: Apache-2.0
/**
 * Memory blocks and mappings, and call stacks: the stacks of the calls that made them, or of the
 * calls that TRACE records (SOSC_PLAN_STACKS).
 *
 * The instrument's own memory is
 *
 *	struct sosc_blocks | buckets of u64 | words of u64
 *
 * and soscope's part of the plan (struct sosc_plan.given) is
 *
 *	struct sosc_blocks | struct sosc_python[]
 *
 * The words hold stacks, one behind the other, which never change. A stack is a head, then return
 * addresses with the innermost first (with the number of their image if another image was at that
 * address before, see SOSC_IMAGE_SHIFT), then the frames of an interpreter (SOSC_FRAME_PYTHON),
 * again with the innermost first. The index of its head is the number of a stack. A bucket holds
 * the upper half of a stack's hash << 32 | its number; 0 = empty. Between the stacks lie code
 * objects (SOSC_STACK_CODE), each a struct sosc_code and its texts. An interpreter's frame refers
 * to its code object by the index of that head. All processes of the block share the stacks. What
 * happens to blocks is written to the ring, as struct sosc_block.
 *
 * With COUNT, blocks are counted by function and size class, and no unit is written for them.
 * Behind the words are then
 *
 *	struct sosc_sizes[arrays]
 *
 * Each thread takes one array and counts in it alone. The first array is shared by all threads for
 * which none is left. Only mappings have stacks then, and these have no frames of an interpreter.
 */
#ifndef SOSCOPE_BLOCKS_H
#define SOSCOPE_BLOCKS_H

#include <stdint.h>

#include "family.h"

enum {
	SOSC_BLOCK_FRAMES = 64, // most frames of a stack
	SOSC_STACK_API = 8, // in a head: lowest bit of the api; below it: number of frames
	SOSC_STACK_CUT = 16, // in a head, a bit: the stack had more frames
	// in a head, a bit: a code object, not a stack; then the api's bits hold the minor
	// version of Python, or SOSC_CODE_RUBY
	SOSC_STACK_CODE = 17,
	SOSC_STACK_SIZE = 32, // lowest bit of the number of words
	SOSC_CODE_RUBY = 0,
	// A frame of Python or Ruby: in the low bits the number of its code object, then
	// lowest bit of the offset in bytes from the code's first instruction,
	SOSC_FRAME_INSTR = 32,
	SOSC_FRAME_INSTR_BITS = 30, // which may be negative; for Ruby the line number
	// a bit: C code called the evaluator for this frame, and for the frames inside it that
	// stand in front of it
	SOSC_FRAME_ENTRY = 62,
	SOSC_FRAME_PYTHON = 63, // a bit
	// in place of an address: soscope had the interpreter run code of its own
	SOSC_FRAME_SOSCOPE = 1,
	SOSC_BLOCK_TICKS = 28, // bits for the ticks of BLOCK_OVER
};

#define SOSC_API_OF_MAKER(name, api, number, ...) SOSC_API_##api = number,
#define SOSC_API_OF_MAPPING(api, number) SOSC_API_##api = number,
enum sosc_block_api { // the outermost allocation function that the program called
	SOSC_API_NONE = 0,
	SOSC_FAMILY_MAKERS(SOSC_API_OF_MAKER) SOSC_FAMILY_MAPPING_APIS(SOSC_API_OF_MAPPING)
};

enum sosc_block_mode {
	SOSC_BLOCKS_EXACT = 0,
	SOSC_BLOCKS_SAMPLE = 1,
	SOSC_BLOCKS_COUNT = 2,
	SOSC_BLOCKS_NONE = 3, // blocks are not recorded
};

enum { SOSC_GIVEN = 7 }; // images that are told apart; the last one is SOSC_GIVEN_OTHERS

struct sosc_blocks {
	uint32_t bits; // log2 of the number of buckets
	uint32_t mode; // enum sosc_block_mode
	uint64_t words; // room, in words
	uint64_t words_used; // agent adds; word 0 belongs to no stack
	uint64_t stacks_lost; // calls whose stack did not fit: they get stack 0
	uint64_t first_bucket; // offsets from this struct
	uint64_t first_word;
	// SAMPLE: the number of bytes, times 2^16, within which the next chosen byte lies with
	// probability one half. The distance to the next chosen byte is 1 + -log2(random number
	// between 0 and 1) * scale / 2^16.
	uint64_t scale;
	uint64_t first_layout; // offset from this struct
	uint64_t layouts; // how many
	uint64_t first_array; // COUNT: offset of struct sosc_sizes[]
	uint32_t arrays;
	uint32_t arrays_used; // arrays handed out or asked for; starts at 1
	uint64_t leads; // EXACT: agent adds SOSC_LEAD_NEXT; each value is handed out once
	uint32_t ruby; // agent: enum sosc_ruby_frames
	uint32_t python; // agent: enum sosc_python_frames
	uint64_t threads_lost; // agent: new threads whose stacks could not be found
	uint64_t has_allocator; // agent: 1: the program itself defines malloc
	uint32_t frames; // most frames of a stack, up to SOSC_BLOCK_FRAMES; 0: SOSC_BLOCK_FRAMES
	uint32_t has_xsave; // 1: the processor has XSAVE, and the kernel lets programs use it
	// EXACT: the thread that has the lead (a value taken from `leads`), or flags; on a cache
	// line of its own. The thread with the lead numbers its events, starting from one reading
	// of the clock. Any other thread that records an event takes the lead away first. A thread
	// without the lead reads the clock for each event.
	uint64_t lead;
	// agent: the functions to which dlsym has given an image pointers: the image's index + 1
	// << 32 | bits 1 << enum sosc_block_api, SOSC_GIVEN_FREE and SOSC_GIVEN_MUNMAP
	uint64_t given[SOSC_GIVEN];
};

enum {
	// image index of code outside all images, and of images for which there is no other room
	SOSC_GIVEN_OTHERS = 0xfffffffe,
	SOSC_GIVEN_FREE = 1u << 30, // functions that free blocks
	SOSC_GIVEN_MUNMAP = 1u << 31,
};

enum {
	SOSC_LEAD_NOBODY = 1, // flags of `lead`: no thread has it, any thread may take it
	SOSC_LEAD_NEVER = 2, // no thread may take it: other programs are recorded, too
	SOSC_LEAD_NEXT = 4,
};

enum sosc_ruby_frames { // why stacks have no Ruby frames although there is an interpreter
	SOSC_RUBY_FINE = 0,
	SOSC_RUBY_NO_FUNCTION = 1, // it lacks a function that the agent needs
	SOSC_RUBY_NO_LAYOUT = 2, // its version is not known
	SOSC_RUBY_NO_CONTEXT = 3, // the states of its threads were not found
	SOSC_RUBY_WRONG = 4, // its own functions report other frames than the agent reads
};

enum sosc_python_frames { // why stacks have no Python frames although there is an interpreter
	SOSC_PYTHON_FINE = 0,
	SOSC_PYTHON_NO_FUNCTION = 1, // it lacks a function that the agent needs
	SOSC_PYTHON_NO_LAYOUT = 2, // its version is not known
	SOSC_PYTHON_NO_GIL = 3, // a free-threaded build
	SOSC_PYTHON_DEBUG = 4, // a debug build
};

#define SOSC_ROOM_OF_MAKER(name, api, number, ...) char name[number + 1];

// Size classes. Up to SOSC_SIZES_FINE bytes each class holds SOSC_SIZES_STEP sizes (0 to 16, 17 to
// 32, ...); the first holds size 0, too. Above, each class ends at twice the size of the class
// before.
enum {
	SOSC_SIZES_STEP = 16,
	SOSC_SIZES_FINE = 1024,
	SOSC_SIZES_CLASSES = 128,
	// functions that make blocks have numbers below this: one more than the largest
	SOSC_SIZES_APIS = sizeof(union {SOSC_FAMILY_MAKERS(SOSC_ROOM_OF_MAKER)}),
};

struct sosc_size_class {
	uint64_t made; // blocks
	uint64_t made_bytes;
	uint64_t freed;
	uint64_t freed_bytes;
};

struct sosc_sizes { // of one thread
	uint32_t pid; // the process's own pid, 0 if the array is free
	uint32_t tid;
	uint64_t strange; // frees of blocks that the agent did not see allocated
	// blocks that found no room in the agent's memory: their frees will not be known
	uint64_t untracked;
	uint64_t untracked_bytes;
	// struct sosc_size_class [SOSC_SIZES_APIS][SOSC_SIZES_CLASSES]
	uint8_t classes[SOSC_SIZES_APIS * SOSC_SIZES_CLASSES * sizeof(struct sosc_size_class)];
};

#endif
