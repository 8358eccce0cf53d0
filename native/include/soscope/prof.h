// SPDX-License-Identifier: Apache-2.0
/**
 * Calls that instrumented code reports itself (SOSC_INSTRUMENT_PROF): what soscope asks for, and
 * what the agent has counted, in the instrument's own memory:
 *
 *	struct sosc_prof | tables: struct sosc_prof_table, nodes, frames
 */
#ifndef SOSCOPE_PROF_H
#define SOSCOPE_PROF_H

#include <stdint.h>

enum sosc_prof_mode {
	SOSC_PROF_QUIET = 0, // hooks do nothing
	SOSC_PROF_COUNT = 1, // a node for each pair of caller and function, all of them roots
	SOSC_PROF_SAMPLE = 2, // a tree; one call in `period` is timed
	SOSC_PROF_TIME = 3, // a tree, and all calls are
	SOSC_PROF_LOG = 4, // a struct sosc_reported for each call; nodes only tell functions
	SOSC_PROF_MODES = 5,
};

enum sosc_prof_hook { // what reports a call
	SOSC_PROF_MCOUNT = 0, // mcount, behind the prologue
	SOSC_PROF_FENTRY = 1, // __fentry__, in front of it
	SOSC_PROF_CYG = 2, // __cyg_profile_func_enter and _exit
	SOSC_PROF_BARE = 3, // __cyg_profile_func_enter_bare
	SOSC_PROF_HOOKS = 4,
};

enum {
	SOSC_PROF_NODE_BITS = 15,
	SOSC_PROF_NODES = 32768, // places of a table; a hash says which
	SOSC_PROF_ROOM = 28672, // that are filled at most
	SOSC_PROF_FRAMES = 4096, // frames: of calls of a thread that are open at once; the first is
	// nobody's
	SOSC_PROF_HEAD = 4096, // bytes in front of the nodes
	SOSC_PROF_TABLE_SIZE = 2363392, // bytes of all of a table
	SOSC_PROF_NO_CALLER = 1, // in the place of a return address that is not known
	SOSC_PROF_PAGE_NODES = 64, // nodes of a page
	SOSC_PROF_FILLED_WORDS = 8, // a bit for each page of nodes
};

#define SOSC_PROF_INSIDE 0x8000000000000000ull // of a key: the rest is the offset of the parent

enum sosc_prof_flag { // of struct sosc_prof
	SOSC_PROF_SHADOW_STACK =
		1, // the kernel checks returns: those of MCOUNT and FENTRY are unseen
	SOSC_PROF_FOLLOWED = 2, // children share the records: closed in one, an image may be open
	// in another
};

enum sosc_prof_left { // why a function's entry is not patched
	SOSC_PROF_LEFT_SMALL = 0, // there is no room for a call
	SOSC_PROF_LEFT_OTHER = 1, // there is something else than no-operations
	SOSC_PROF_LEFT_START = 2, // nothing says where between them the function begins
	SOSC_PROF_LEFT_WRITE = 3, // its code may not be written
	SOSC_PROF_LEFT_FULL = 4, // no memory in reach, or no room in the journal
	SOSC_PROF_LEFT_KINDS = 5,
};

enum sosc_prof_node_flag {
	SOSC_PROF_NODE_HOOK = 3, // enum sosc_prof_hook
	SOSC_PROF_NODE_UNSEEN = 4, // its returns cannot be seen: it is only counted
	SOSC_PROF_NODE_ALIAS = 8, // its calls are those of the node at offset `site`, around it
};

enum sosc_prof_frame_flag {
	SOSC_PROF_FRAME_TIMED = 1,
	SOSC_PROF_FRAME_FOLDED = 2, // inside another call of the same node
};

struct sosc_prof_cost { // tsc ticks, 0: not measured
	uint32_t inner; // an empty call appears to take
	uint32_t outer; // all that a call costs
};

struct sosc_prof {
	uint32_t mode; // py: enum sosc_prof_mode
	uint32_t tables; // py: how many there is room for
	uint32_t period; // py: a power of two; 1: all calls are timed
	uint32_t used; // tables; the first is for all threads that find none, and for them alone
	uint64_t first_table; // py: offset from here
	struct sosc_prof_cost cost[SOSC_PROF_HOOKS];
	uint64_t foreign; // slots that lead to another profiler's mcount, and are left alone
	uint32_t flags; // enum sosc_prof_flag
	uint32_t slots; // of hooks
	uint32_t entries; // of functions, that are patched
	uint32_t left[SOSC_PROF_LEFT_KINDS]; // that are not
	uint32_t unread; // images whose file is gone, or cannot be read: are there entries?
	uint32_t reserved_word;
	uint64_t reserved[3];
};

// A function, by the way to it. Node 0 of a table stands for all that found no room.
// Once an image was closed, addrs in its nodes have its index (SOSC_IMAGE_SHIFT).
struct sosc_prof_node {
	uint64_t key; // SOSC_PROF_INSIDE | offset of the parent from the first node, else the
		// return address of the call; 0: nobody's
	uint64_t function; // its addr; of MCOUNT, FENTRY and BARE where their hook returns to; 0: it
		// is being written
	uint64_t calls;
	uint64_t total; // ticks of those that are timed, the outermost alone
	uint64_t self; // of those, what was not in other calls
	uint64_t from; // return address of the first call, behind all trampolines
	uint64_t site; // where its hook returns to
	uint32_t timed; // calls
	uint32_t flags; // enum sosc_prof_node_flag
};

// A call that is open. Those of a thread lie one behind the other.
struct sosc_prof_frame {
	uint64_t place; // ~ of the stack address that tells it from others; 0: it is not in use, or
		// being written, 1: it has returned
	uint64_t start; // tsc
	uint64_t done; // the table's, then
	uint64_t site; // where its hook returned to
	uint64_t from; // its return address
	uint64_t key; // SOSC_PROF_INSIDE | offset of its node: that of calls inside it; LOG: what its
		// unit has as `around`
	uint64_t function; // its node's, if it has found one
	uint32_t flags; // enum sosc_prof_frame_flag
	uint32_t commit; // LOG: that of its unit, without the ticks
};

struct sosc_prof_table { // of one thread after the other
	uint32_t pid;
	uint32_t tid; // of the last one
	uint32_t threads; // how many
	uint32_t nodes; // in use
	uint64_t done; // ticks of calls that have returned, each once
	uint64_t last; // tsc of the last thing that was reported
	uint64_t left; // calls that did not return: their times end before they did
	uint64_t unpaired; // returns of calls that are not open
	uint64_t deep; // calls that found no frame: counted, and not timed
	uint64_t filled[SOSC_PROF_FILLED_WORDS]; // bit set: there are nodes in that page
};

#endif
