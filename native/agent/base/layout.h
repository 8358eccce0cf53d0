// SPDX-License-Identifier: Apache-2.0
/**
 * Numbers that C and assembly share. The headers that define the structs assert that they agree.
 */
#ifndef SOSC_LAYOUT_H
#define SOSC_LAYOUT_H

#define SOSC_DISTANCE 0xa00000 // from a trampoline to its cell or data, SOSC_BLOB_DISTANCE
// The same, as the operand of a DWARF expression
#define DISTANCE_BYTES 0, 0, SOSC_DISTANCE >> 16 & 0xff, SOSC_DISTANCE >> 24
#define SOSC_ENTRY_SIZE 16
#define SOSC_SITE_SIZE 32
#define SOSC_SITES_PER_PAGE 128 // the data of the last one holds the exit handler

// struct sosc_cell
#define CELL_HANDLER 0
#define CELL_ORIGINAL 8

// struct sosc_counter
#define SOSC_COUNTER_SIZE 128
#define COUNTER_CELL 16
#define COUNTER_THREAD 24
#define COUNTER_RETURN 32
#define COUNTER_AT 40
#define COUNTER_SECOND 16 // from one call site to the next
#define COUNTER_OFTEN 1024 // calls of a thread from one call site until the counter is reconsidered

// struct sosc_site
#define SITE_RETURN 0
#define SITE_CELL 8
#define SITE_ORIGINAL 16
#define SITE_RULE 24 // u8: enum sosc_error_rule
#define SITE_FLAGS 25 // u8
#define SITE_DEPTH 26 // u8
#define SITE_NAMESPACE 27 // u8
#define SITE_OPEN 28 // u32, see struct sosc_site

#define SITE_RETURNS 14 // offset in a return trampoline of the address to which its call returns
#define SITE_KEPT (-16) // offset from the stack pointer at which the trampoline saves a register

#define SITE_FLAG_PROGRAM 1 // the exit runs a capture program
#define SITE_FLAG_TWICE 2 // the function may return again: keep what was parked
#define SITE_FLAG_BRIEF 4 // the duration is not needed
#define SITE_FLAG_OLD 8 // the trampoline is of an earlier session: its exits are not recorded
#define SITE_FLAGS_C 9 // if any of these flags is set, TRACE handles the exit in C

// struct sosc_thread: 256 bytes in a table indexed by the thread pointer
#define THREAD_SHIFT 8
#define THREAD_BITS 13
#define THREAD_COUNT (1 << THREAD_BITS)
// A hash factor. Stacks lie at equal distances, which may be a multiple of any power of two.
#define THREAD_FACTOR 0x9e3779b1
#define THREAD_KEY 0
#define THREAD_POS 8
#define THREAD_COUNTS 16
#define THREAD_STATS 24
#define THREAD_OVERHEAD 32
#define THREAD_PARKED 40
#define THREAD_DONE 48
#define THREAD_TID 56
#define THREAD_LAST 128
#define THREAD_QUIET 121

// Ticks, some 20 us. A thread that was at no hook for longer may have waited for a processor
#define DELAY_LONG 0x10000

// parked calls of a thread (-c, and exits that want arguments): 32 bytes each
#define PARKED_SHIFT 5
#define PARKED_COUNT 8192
#define PARKED_END (8192 << 5) // a place below this address means that there is no table
#define PARKED_PROBES 12
// Stack addresses of the same 128 KiB lie next to each other in the table. The next 128 KiB begin
// as far from all others as possible, because the stacks of coroutines often lie that far apart.
#define PARKED_WINDOW 17
#define PARKED_SPREAD (5063 << 4)
#define PARKED_SP 0
#define PARKED_CELL 8
#define PARKED_A 16 // -c: tsc of the entry, less the thread's overhead; trace: first saved word
#define PARKED_B 24 // -c: the thread's `done` at the entry; trace: second saved word

// struct sosc_link
#define LINK_SIZE 40
#define LINK_POINT 0
#define LINK_FIRST 8
#define LINK_SPAN 16

// struct sosc_stats
#define STATS_SHIFT 6
#define STATS_CALLS 0
#define STATS_RETURNS 8
#define STATS_ERRORS 16
#define STATS_TOTAL 24
#define STATS_MIN 32
#define STATS_MAX 40
#define STATS_SELF 48

// struct sosc_block_thread: 128 bytes in a table like the table of threads
#define BLOCK_THREAD_SHIFT 7
#define BLOCK_THREAD_TID 0
#define BLOCK_THREAD_SP 8
#define BLOCK_THREAD_RET 16
#define BLOCK_THREAD_LOW 48
#define BLOCK_THREAD_HIGH 56
#define BLOCK_THREAD_TP 80
#define BLOCK_THREAD_LEFT 88
#define BLOCK_THREAD_ASKED 112
#define NESTED_BITS 6
#define NESTED_SHIFT 44 // position of the distance in a word of sosc_block_nested
#define NESTED_FAR 0x100000 // the smallest distance that does not fit

// marks of sampled blocks: one bit for each 8 bytes of memory, in leaves
#define MARK_BITS 30 // address bits covered by one leaf
#define MARK_LEAVES (1 << (47 - MARK_BITS))
#define MARK_ALL 1 // in place of a leaf: there was no memory for it
// and the number of marked blocks whose addresses share these bits
#define MARKED_SHIFT 6
#define MARKED_BITS 16

// struct sosc_tally_slot, and the code that leads to it
#define TALLY_THUNK_SIZE 16
#define TALLY_SLOT_SIZE 128

// struct sosc_tally_call
#define TALLY_CALL_SIZE 144
#define TALLY_CALL_VECTORS 48
#define TALLY_CALL_CHAIN 56
#define TALLY_CALL_SLOT 64
#define TALLY_CALL_WORDS 80
#define TALLY_CALL_STACK 88
#define TALLY_CALL_RESULT 96
#define TALLY_CALL_SEEN 136

// struct sosc_prof_thread: in a table with the same places as the table of struct sosc_thread
#define PROF_THREAD_SHIFT 5
#define PROF_THREAD_KEY 0
#define PROF_THREAD_TABLE 8
#define PROF_THREAD_NEXT 16
#define PROF_THREAD_TID 24

// struct sosc_prof_table, and behind it the nodes, then the frames, of which the first is unused
#define PROF_TABLE_DONE 16
#define PROF_TABLE_LAST 24
#define PROF_NODES 4096
#define PROF_FRAMES (PROF_NODES + (1 << (PROF_NODE_BITS + PROF_NODE_SHIFT)))
#define PROF_FRAMES_END (PROF_FRAMES + (4096 << PROF_FRAME_SHIFT))
// most often an open call and the next one are less than this many bytes of stack apart
#define PROF_NEAR 0x10000

// struct sosc_prof_node
#define PROF_NODE_BITS 15
#define PROF_NODE_SHIFT 6
// mask of offsets from the first node
#define PROF_NODE_OFFSETS (((1 << PROF_NODE_BITS) - 1) << PROF_NODE_SHIFT)
#define PROF_NODE_KEY 0
#define PROF_NODE_FUNCTION 8
#define PROF_NODE_CALLS 16
#define PROF_NODE_TOTAL 24
#define PROF_NODE_SELF 32
#define PROF_NODE_TIMED 56
#define PROF_NODE_FLAGS 60
#define PROF_NODE_ODD 12 // flags of nodes that the fast path does not handle
// spreads the offsets of nodes, so that different calls of each node are timed
#define PROF_PHASE 0x9e3779b1

// struct sosc_prof_frame
#define PROF_FRAME_SHIFT 6
#define PROF_FRAME_SIZE 64
#define PROF_FRAME_PLACE 0
#define PROF_FRAME_START 8
#define PROF_FRAME_DONE 16
#define PROF_FRAME_SITE 24
#define PROF_FRAME_FROM 32
#define PROF_FRAME_KEY 40
#define PROF_FRAME_FUNCTION 48
#define PROF_FRAME_FLAGS 56
#define PROF_FRAME_COMMIT 60
#define PROF_RETURNED 1 // `place` of a call that has returned

// enum sosc_reported_flag, and the position of the ticks
#define REPORTED_ROOT 4
#define REPORTED_TICKS 5

// ring
#define CHUNK_MASK 0x3fff
#define CHUNK_LIMIT (0x4000 - 512)
#define CHUNK_FIRST 64 // SOSC_CHUNK_HEADER

// struct sosc_whole
#define TICKS_LOW 10 // SOSC_TICKS_LOW
#define START_BITS 48 // SOSC_START_BITS
#define NO_TICKS 0x3ffffff // SOSC_NO_TICKS

// site hints: a direct-mapped table of trampolines
#define HINT_BITS 14
#define HINT_FACTOR 0x9e3779b97f4a7c15

#endif
