// SPDX-License-Identifier: Apache-2.0
/** The part of wire.h about the ring: chunks, and the units in them. */
#ifndef SOSCOPE_STREAM_H
#define SOSCOPE_STREAM_H

#include <stddef.h>
#include <stdint.h>

// States in the low byte of a chunk's word in SOSC_SEC_CHUNK_STATES. The other three bytes count
// how often the chunk was taken. A thread that has been interrupted for long, or a forked child,
// sees by this count that the chunk belongs to another thread by now. The reader stores only the
// low byte.
enum sosc_chunk_state {
	SOSC_CHUNK_FREE = 0, // -> OWNED by a writer
	SOSC_CHUNK_OWNED = 1, // a thread writes; the reader may read committed units
	// -> FREE by the reader (OVERWRITE: -> OWNED by a writer). If a thread has ended, the
	// reader stores FULL
	SOSC_CHUNK_FULL = 2,
	SOSC_CHUNK_STATE = 0xff, // mask of the state in the word
};

enum sosc_chunk_flag {
	// The chunk's writer is a vfork child. The parent gives the chunk back, whatever happens to
	// the child, so the reader must not
	SOSC_CHUNK_BORROWED = 1,
	// Only in recordings: the unit in this piece was stored before as OPEN, and now is WHOLE
	SOSC_CHUNK_RETURNED = 2,
};

struct sosc_chunk {
	// written last; the units behind it are zero until committed. The reader clears it before
	// it frees the chunk
	uint64_t seq;
	uint32_t tid;
	uint32_t pid;
	uint64_t tsc; // when handed out
	uint64_t tsc_full; // when given back, 0 until then
	uint32_t flags; // enum sosc_chunk_flag
	uint32_t reserved0;
	uint64_t reserved[3];
	// then units of 32 bytes up to SOSC_CHUNK_SIZE
};

// A unit's first word is its commit word, which is stored last: type << 28 | 28 low bits. A unit
// whose commit word is 0 in a full chunk was never finished: skip it.
enum sosc_unit_type {
	SOSC_UNIT_ENTRY = 1, // an EXIT will follow
	SOSC_UNIT_ENTRY_ONLY = 2, // no EXIT will follow
	SOSC_UNIT_EXIT = 3,
	SOSC_UNIT_DATA = 4, // belongs to the ENTRY or EXIT before it
	SOSC_UNIT_OVERHEAD = 5, // time that the agent took, to be subtracted from the program's
	SOSC_UNIT_OPEN = 6, // an entry: it becomes WHOLE, or an EXIT follows
	SOSC_UNIT_WHOLE = 7, // an entry together with its exit
	SOSC_UNIT_NOTHING = 8, // a unit that was reserved and not needed
	SOSC_UNIT_BLOCK = 9, // a block was allocated; the unit may become BLOCK_OVER
	// a block that its thread has freed; 28 low bits: ticks until the free, 0 if freed before
	// anything else was recorded
	SOSC_UNIT_BLOCK_OVER = 10,
	// a block is about to be freed; if blocks are sampled, size is 1 if the freeing
	// thread made this block and recorded no other block since
	SOSC_UNIT_FREED = 11,
	SOSC_UNIT_MAPPED = 12, // an address range was mapped
	SOSC_UNIT_UNMAPPED = 13, // an address range is about to be unmapped
	SOSC_UNIT_KEPT = 14, // the thread's last FREED or UNMAPPED failed, and changed nothing
	SOSC_UNIT_REPORTED = 15, // a call reported by instrumented code has ended
};

struct sosc_entry { // 28 low bits: slot index
	uint32_t commit;
	uint32_t sp; // low half of the address at which the return address lies
	uint64_t tsc;
	uint64_t return_addr;
	uint64_t arg0; // first integer register
};

struct sosc_exit { // 28 low bits: slot index
	uint32_t commit;
	uint32_t sp; // the same value as in its entry
	uint64_t tsc;
	uint64_t result; // rax
	uint32_t errno_value; // valid with SOSC_AGENT_ERRNO
	uint32_t reserved;
};

// OPEN and WHOLE: the 28 low bits are the number of the call site << 10 | low bits of the ticks. If
// an exit finds that its entry is the last record of the thread, it makes the entry WHOLE, unless
// errno is wanted or the call took too long. The exit first takes a unit behind the entry, and
// gives this unit back afterwards. Meanwhile no signal handler can take that chunk away, and no
// reader looks past the entry. So an OPEN unit never changes once another unit behind it is
// committed.
struct sosc_whole {
	uint32_t commit;
	uint32_t sp; // as in struct sosc_entry
	// 48 bits: ticks since control.tsc_start; the upper 16 bits: high bits of the ticks
	uint64_t start;
	uint64_t result; // rax; 0 while it is OPEN
	uint64_t arg0;
};

// BLOCK to KEPT. If a BLOCK is the last record of its thread when the thread frees the block, it
// becomes BLOCK_OVER, by the same rules as OPEN and WHOLE. Only its commit word changes.
struct sosc_block { // 28 low bits: 0, except for the ticks of BLOCK_OVER
	uint32_t commit;
	uint32_t stack; // BLOCK and MAPPED: number of the call stack, see blocks.h
	uint64_t tsc;
	uint64_t addr;
	uint64_t size; // bytes: requested (BLOCK and MAPPED), or removed (UNMAPPED)
};

enum {
	SOSC_TICKS_LOW = 10, // bits of ticks in the commit word
	SOSC_START_BITS = 48,
	// the duration was not measured; calls that take this long or longer get an EXIT
	SOSC_NO_TICKS = 0x3ffffff,
};

// DATA: the 28 low bits are kind << 24 | item << 16 | length. The units of one item follow each
// other. The first has the kind, the others have SOSC_DATA_MORE and the number of bytes still to
// come. payload holds min(length, 24) bytes.
enum sosc_data_kind {
	SOSC_DATA_MORE = 0,
	SOSC_DATA_WORDS = 1, // integer registers, starting with number `item`
	SOSC_DATA_STACK = 2, // stack words, starting with number `item`
	SOSC_DATA_FLOATS = 3, // xmm registers, starting with number `item`; at exit: xmm0
	SOSC_DATA_STRING = 4, // without its NUL
	SOSC_DATA_BYTES = 5,
	SOSC_DATA_WORD_AT = 6, // 8 bytes
	// integer registers 1 to 5, 48 bits each, sign-extended: in payload, aux (low half of the
	// last register) and the length field (the rest of it)
	SOSC_DATA_PACKED = 7,
};

enum sosc_data_flag { // in aux
	SOSC_DATA_TRUNCATED = 1, // there was more than the limit
	SOSC_DATA_UNREADABLE = 2, // the pointer could not be read
	SOSC_DATA_NULL = 4, // the pointer was NULL
};

struct sosc_data {
	uint32_t commit;
	uint32_t aux; // enum sosc_data_flag in the first unit of an item
	uint8_t payload[24];
};

enum sosc_reported_flag {
	SOSC_REPORTED_HOOK = 3, // enum sosc_prof_hook
	SOSC_REPORTED_ROOT = 4, // the thread has no known enclosing call
	SOSC_REPORTED_LEFT = 8, // its return was not seen: it took at least that long
	SOSC_REPORTED_UNSEEN = 16, // its return cannot be seen: how long it took is not known
};

// A unit is written when its call is over, after the units of the calls inside it. `start`
// identifies the call among all calls of its thread.
struct sosc_reported { // 28 low bits: high bits of ticks << 5 | enum sosc_reported_flag
	uint32_t commit;
	uint32_t ticks; // low bits
	uint64_t start; // tsc
	// start address of the function, if the hook got it; else an address inside, see prof.h
	uint64_t function;
	// `start` of the enclosing call; with ROOT the return address, or 0 if unknown
	uint64_t around;
};

enum {
	SOSC_REPORTED_TICKS = 5, // position of the high bits of ticks
};

struct sosc_overhead {
	uint32_t commit; // 28 low bits: 0
	uint32_t reserved;
	uint64_t tsc; // when it began
	uint64_t ticks; // how long it took
	uint64_t reserved1;
};

// The call instruction and the slot that a call went through. Units refer to a call site by its
// index. Followed children share them.
struct sosc_call_site {
	// return address << SOSC_CALL_SITE_SLOT | slot index + 1, or 0 if not written yet
	uint64_t word;
};

#endif
