// SPDX-License-Identifier: Apache-2.0
/**
 * Calls that instrumented code reports by itself (SOSC_INSTRUMENT_PROF): what soscope asks for, and
 * what the agent has counted, in the instrument's own memory:
 *
 *	struct sosc_prof | tables: struct sosc_prof_table, nodes, frames
 */
#ifndef SOSCOPE_PROF_H
#define SOSCOPE_PROF_H

#include <stdint.h>

enum sosc_prof_mode {
	SOSC_PROF_QUIET = 0, // hooks do nothing
	SOSC_PROF_COUNT = 1, // a node for each pair of caller and function; all nodes are roots
	SOSC_PROF_SAMPLE = 2, // a call tree; one call in `period` is timed
	SOSC_PROF_TIME = 3, // a call tree; all calls are timed
	SOSC_PROF_LOG = 4, // a struct sosc_reported for each call; nodes only identify functions
	SOSC_PROF_MODES = 5,
};

enum sosc_prof_hook { // the function that reports a call
	SOSC_PROF_MCOUNT = 0, // mcount, called after the prologue
	SOSC_PROF_FENTRY = 1, // __fentry__, called before the prologue
	SOSC_PROF_CYG = 2, // __cyg_profile_func_enter and _exit
	SOSC_PROF_BARE = 3, // __cyg_profile_func_enter_bare
	SOSC_PROF_HOOKS = 4,
};

enum {
	SOSC_PROF_NODE_BITS = 15,
	SOSC_PROF_NODES = 32768, // entries of a table; a hash selects one
	SOSC_PROF_ROOM = 28672, // most entries that are filled
	// most calls of one thread that are open at once; frame 0 is unused
	SOSC_PROF_FRAMES = 4096,
	SOSC_PROF_HEAD = 4096, // bytes before the nodes
	SOSC_PROF_TABLE_SIZE = 2363392, // bytes of a whole table
	SOSC_PROF_NO_CALLER = 1, // stands for a return address that is not known
	SOSC_PROF_PAGE_NODES = 64, // nodes in one page
	SOSC_PROF_FILLED_WORDS = 8, // words that hold a bit for each page of nodes
};

#define SOSC_PROF_INSIDE 0x8000000000000000ull // in a key: the rest is the offset of the parent

enum sosc_prof_flag { // of struct sosc_prof
	// the kernel has switched on shadow stacks: returns of MCOUNT and FENTRY calls
	// cannot be seen
	SOSC_PROF_SHADOW_STACK = 1,
	// children share the records: an image closed in one process may still be open in another
	SOSC_PROF_FOLLOWED = 2,
};

enum sosc_prof_left { // why a function's entry is not patched
	SOSC_PROF_LEFT_SMALL = 0, // there is no room for a call
	SOSC_PROF_LEFT_OTHER = 1, // it has other instructions than no-operations
	SOSC_PROF_LEFT_START = 2, // nothing tells at which of the no-operations the function begins
	SOSC_PROF_LEFT_WRITE = 3, // its code may not be written
	SOSC_PROF_LEFT_FULL = 4, // no memory in reach, or no room in the journal
	SOSC_PROF_LEFT_KINDS = 5,
};

enum sosc_prof_node_flag {
	SOSC_PROF_NODE_HOOK = 3, // enum sosc_prof_hook
	SOSC_PROF_NODE_UNSEEN = 4, // its returns cannot be seen, so calls are only counted
	// its calls are the same as the calls of the node at offset `site`, which encloses it
	SOSC_PROF_NODE_ALIAS = 8,
};

enum sosc_prof_frame_flag {
	SOSC_PROF_FRAME_TIMED = 1,
	SOSC_PROF_FRAME_FOLDED = 2, // nested inside another call of the same node
};

struct sosc_prof_cost { // tsc ticks, 0 if not measured
	uint32_t inner; // ticks that an empty call appears to take
	uint32_t outer; // ticks that a call adds in all
};

struct sosc_prof {
	uint32_t mode; // soscope: enum sosc_prof_mode
	uint32_t tables; // soscope: number of tables that there is room for
	uint32_t period; // soscope: a power of two; 1: all calls are timed
	uint32_t used; // tables in use; the first is shared by the threads that find no other
	uint64_t first_table; // soscope: offset from the start of this struct
	struct sosc_prof_cost cost[SOSC_PROF_HOOKS];
	uint64_t foreign; // slots that lead to another profiler's mcount, and are left alone
	uint32_t flags; // enum sosc_prof_flag
	uint32_t slots; // hooked slots of profiling functions
	uint32_t entries; // function entries that are patched
	// function entries that are not patched, by enum sosc_prof_left
	uint32_t left[SOSC_PROF_LEFT_KINDS];
	// images whose file is missing or unreadable: whether they have patchable entries is not
	// known
	uint32_t unread;
	uint32_t reserved_word;
	uint64_t reserved[3];
};

// A function with its call path. Node 0 of a table stands for all nodes that did not fit. After an
// image is closed, addresses in its nodes carry its index (SOSC_IMAGE_SHIFT).
struct sosc_prof_node {
	// SOSC_PROF_INSIDE | offset of the parent from the first node, or the return address of the
	// call, or 0 if the node is free
	uint64_t key;
	// address of the function; for MCOUNT, FENTRY and BARE the address to which the hook
	// returns, or 0 if the node is being written
	uint64_t function;
	uint64_t calls;
	uint64_t total; // ticks of timed calls, without those nested in a call of the same node
	uint64_t self; // the part of `total` that was not spent in other calls
	uint64_t from; // return address of the first call, looked up behind all trampolines
	uint64_t site; // address to which the hook returns
	uint32_t timed; // number of timed calls
	uint32_t flags; // enum sosc_prof_node_flag
};

// An open call. The frames of a thread lie one behind the other.
struct sosc_prof_frame {
	// ~ of the stack address that identifies the call, 0 if the frame is free or being written,
	// 1 if the call has returned
	uint64_t place;
	uint64_t start; // tsc
	uint64_t done; // the table's `done` at the entry
	uint64_t site; // address to which the hook returned
	uint64_t from; // return address of the call
	// SOSC_PROF_INSIDE | offset of its node, the key of calls inside it; LOG: what these calls
	// store as `around`
	uint64_t key;
	uint64_t function; // the node's `function`, if there is a node
	uint32_t flags; // enum sosc_prof_frame_flag
	uint32_t commit; // LOG: the commit word of its unit, without the ticks
};

struct sosc_prof_table { // used by one thread after the other
	uint32_t pid;
	uint32_t tid; // of the latest thread
	uint32_t threads; // how many threads have used it
	uint32_t nodes; // in use
	uint64_t done; // ticks of calls that have returned, nested ones counted once
	uint64_t last; // tsc of the latest reported event
	uint64_t left; // calls that never reported a return: their times are too short
	uint64_t unpaired; // returns without an open call
	uint64_t deep; // calls that found no frame: they are counted, and not timed
	// one bit for each page of nodes: set if the page has any
	uint64_t filled[SOSC_PROF_FILLED_WORDS];
};

#endif
