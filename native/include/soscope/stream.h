// SPDX-License-Identifier: Apache-2.0
/**
 * What wire.h says of the ring: chunks, and the units in them.
 */
#ifndef SOSCOPE_STREAM_H
#define SOSCOPE_STREAM_H

#include <stddef.h>
#include <stdint.h>

// The low byte of a chunk's word in SOSC_SEC_CHUNK_STATES. The other three count how
// often it was taken: who has been away for long, or is a forked child, finds that it
// is another's. The reader stores the low byte alone.
enum sosc_chunk_state {
	SOSC_CHUNK_FREE = 0, // -> OWNED by a writer
	SOSC_CHUNK_OWNED = 1, // a thread writes; the reader may read committed units
	SOSC_CHUNK_FULL = 2, // -> FREE by the reader (OVERWRITE: -> OWNED by a writer; of a thread
	// that has ended, the reader stores it)
	SOSC_CHUNK_STATE = 0xff, // what is kept of the word
};

enum sosc_chunk_flag {
	// Its writer is a vfork child: the parent gives it back, whatever becomes of the
	// child, so the reader must not
	SOSC_CHUNK_BORROWED = 1,
	// In a recording alone: the one unit of this piece was there before as OPEN, and is WHOLE
	// now
	SOSC_CHUNK_RETURNED = 2,
};

struct sosc_chunk {
	uint64_t seq; // written last; units after it are zero until committed. The
		// reader clears it before it frees the chunk
	uint32_t tid;
	uint32_t pid;
	uint64_t tsc; // when handed out
	uint64_t tsc_full; // when given back, 0 before
	uint32_t flags; // enum sosc_chunk_flag
	uint32_t reserved0;
	uint64_t reserved[3];
	// then units of 32 bytes up to SOSC_CHUNK_SIZE
};

// A unit's first word is its commit word, stored last: type << 28 | low 28 bits.
// A unit whose commit word is 0 in a full chunk was never finished: skip it.
enum sosc_unit_type {
	SOSC_UNIT_ENTRY = 1, // an EXIT is to follow
	SOSC_UNIT_ENTRY_ONLY = 2, // none will
	SOSC_UNIT_EXIT = 3,
	SOSC_UNIT_DATA = 4, // belongs to the ENTRY or EXIT before it
	SOSC_UNIT_OVERHEAD = 5, // time the agent itself took, not the program
	SOSC_UNIT_OPEN = 6, // an entry that becomes WHOLE, or an EXIT is to follow
	SOSC_UNIT_WHOLE = 7, // an entry and its exit
	SOSC_UNIT_NOTHING = 8, // room that nobody needs
	SOSC_UNIT_BLOCK = 9, // a block is there; it may become BLOCK_OVER
	SOSC_UNIT_BLOCK_OVER = 10, // one was, and its thread has freed it: low 28 bits: ticks
	// later, 0: before anything else was recorded
	SOSC_UNIT_FREED =
		11, // a block is about to be freed; where blocks are sampled its size is 1
	// if the thread that frees it has made it, and none since
	SOSC_UNIT_MAPPED = 12, // addresses are mapped
	SOSC_UNIT_UNMAPPED = 13, // addresses are about to be unmapped
	SOSC_UNIT_KEPT = 14, // the thread's last FREED or UNMAPPED has failed: all is as before
	SOSC_UNIT_REPORTED = 15, // a call that instrumented code has reported is over
};

struct sosc_entry { // low 28 bits: slot index
	uint32_t commit;
	uint32_t sp; // low half of the address of the return address
	uint64_t tsc;
	uint64_t return_addr;
	uint64_t arg0; // first integer register
};

struct sosc_exit { // low 28 bits: slot index
	uint32_t commit;
	uint32_t sp; // equal to its entry's
	uint64_t tsc;
	uint64_t result; // rax
	uint32_t errno_value; // valid with SOSC_AGENT_ERRNO
	uint32_t reserved;
};

// OPEN and WHOLE: low 28 bits: number of the call site << 10 | low bits of ticks. An exit whose
// entry is the last record of its thread makes that one WHOLE, unless errno is wanted or it has
// taken too long. The exit takes a unit behind the entry first, and gives it back afterwards: no
// signal handler can take that chunk away meanwhile, and no reader look past the entry. So an
// OPEN unit never changes once another one behind it is committed.
struct sosc_whole {
	uint32_t commit;
	uint32_t sp; // as in an entry
	uint64_t start; // 48 bits: ticks since control.tsc_start; 16 bits: high bits of ticks
	uint64_t result; // rax; 0 while it is OPEN
	uint64_t arg0;
};

// BLOCK … KEPT. A BLOCK that is the last record of its thread when that frees it becomes
// BLOCK_OVER, by the rules of OPEN and WHOLE; nothing but its commit word changes.
struct sosc_block { // low 28 bits: 0, but for the ticks of BLOCK_OVER
	uint32_t commit;
	uint32_t stack; // of BLOCK and MAPPED: its number, see blocks.h
	uint64_t tsc;
	uint64_t addr;
	uint64_t size; // bytes: of BLOCK and MAPPED that were asked for; of UNMAPPED that go
};

enum {
	SOSC_TICKS_LOW = 10, // bits in the commit word
	SOSC_START_BITS = 48,
	SOSC_NO_TICKS = 0x3ffffff, // the duration was not measured; longer ones have an EXIT
};

// DATA: low 28 bits: kind << 24 | item << 16 | length. Units of one item follow
// each other; the first has the kind, the rest SOSC_DATA_MORE with the bytes
// still to come. payload holds min(length, 24) bytes.
enum sosc_data_kind {
	SOSC_DATA_MORE = 0,
	SOSC_DATA_WORDS = 1, // integer registers from number item on
	SOSC_DATA_STACK = 2, // stack words from number item on
	SOSC_DATA_FLOATS = 3, // xmm registers from number item on; exit: xmm0
	SOSC_DATA_STRING = 4, // without its NUL
	SOSC_DATA_BYTES = 5,
	SOSC_DATA_WORD_AT = 6, // 8 bytes
	SOSC_DATA_PACKED = 7, // integer registers 1 to 5 of 48 bits each, their signs extended: in
	// payload, aux (the low half of the last) and in place of the length (the rest)
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
	SOSC_REPORTED_ROOT = 4, // no call of its thread is known to be around it
	SOSC_REPORTED_LEFT = 8, // nobody saw it return: it took so long at least
	SOSC_REPORTED_UNSEEN = 16, // its return cannot be seen: nobody knows how long it took
};

// A call is written when it is over, those inside it before it. A time tells it from all others
// of its thread.
struct sosc_reported { // low 28 bits: high bits of ticks << 5 | enum sosc_reported_flag
	uint32_t commit;
	uint32_t ticks; // low bits
	uint64_t start; // tsc
	uint64_t function; // where it begins, if it has said so; else an address inside, see prof.h
	uint64_t around; // `start` of the call around it; of ROOT its return address, 0: not known
};

enum {
	SOSC_REPORTED_TICKS = 5, // where the high bits of ticks begin
};

struct sosc_overhead {
	uint32_t commit; // low 28 bits: 0
	uint32_t reserved;
	uint64_t tsc; // start
	uint64_t ticks; // length
	uint64_t reserved1;
};

// From where a slot is called: what a unit names by its number. Followed children share them.
struct sosc_call_site {
	uint64_t word; // return address << SOSC_CALL_SITE_SLOT | slot index + 1; 0: not written
};

#endif
