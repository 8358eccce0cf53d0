// SPDX-License-Identifier: Apache-2.0
/**
 * Threads, found by their thread pointer, and the forked children that they go on in.
 */
#ifndef SOSC_THREAD_H
#define SOSC_THREAD_H

#include "base/state.h"

#pragma GCC visibility push(hidden)

struct sosc_parked;

enum {
	THREAD_HELD = 6,
	THREAD_OWED = 3,
	THREAD_READY = 1,
	THREAD_WAITED = 2, // for a chunk, since it has begun to wait for one
};

// sosc_thread.pos without a chunk: this and any multiple of SOSC_CHUNK_SIZE
enum { SOSC_NO_ROOM = CHUNK_LIMIT };

struct sosc_thread { // found by thread pointer; wiped in a forked child
	uint64_t key; // thread pointer, 0 = free; set last; another one's when the thread has ended
	uint64_t pos; // next unit; low bits >= CHUNK_LIMIT: no chunk
	// own count array, biased so that a cell's address indexes it: one of the two, as an
	// interrupted thread may go on in a session of the other instrument
	uint64_t counts; // COUNT's
	uint64_t stats; // STATS's
	uint64_t overhead; // ticks that were ours, not the program's
	struct sosc_parked *parked;
	uint64_t done; // ticks of -c's calls that have returned, nested ones counted once
	uint32_t tid_check; // what stands at sosc_tid_offset
	uint32_t tid;
	uint32_t pid;
	uint32_t chunk; // index in the ring + 1, SOSC_NONE = none; 0: not filled in yet
	// chunks with an interrupted writer: index << 32 | bytes taken, 0 = none
	uint64_t held[THREAD_HELD];
	uint8_t borrowed; // 1: a vfork child goes on in its parent's place
	uint8_t quiet; // 1: a vfork child that is not followed
	uint8_t sealed; // a vfork child's own sosc_sealed
	uint8_t ready; // THREAD_READY once filled in, with THREAD_WAITED
	uint32_t turns; // makes every pos without room another one
	// see delay.c
	uint64_t last; // tsc of the last entry or exit
	uint64_t asked; // tsc when the kernel was asked how long the thread has waited; 0: not yet
	uint64_t sure; // tsc up to which all waits are known
	uint64_t waited; // what the kernel said, in ns
	uint32_t switches; // to other threads, then
	uint32_t works; // pieces of work, of which one in COST_EVERY is timed; see work.h
	uint64_t taken; // ticks that were taken out of all times
	uint64_t told; // of those, prof's
	uint64_t entered; // tsc of the last entry; `last` may be 0 meanwhile
	// of those ticks, what no unit has yet; since: tsc
	struct sosc_owed {
		uint64_t since, ticks;
	} owed[THREAD_OWED];
	// see work.h
	uint64_t accounted; // ticks of the agent's that are counted by themselves
	uint64_t accounted_then; // when the last work that is timed began
};

extern struct sosc_thread *sosc_threads;
extern int64_t sosc_tid_offset; // of the kernel's thread id from the thread pointer
extern bool sosc_quiet; // a child that is not followed, or the recording ended

extern const uint32_t *sosc_alive; // a word that a forked child finds zero
// Where the address of this process's word of SOSC_SEC_GATES stands; a forked child finds 0 there.
extern uint64_t *sosc_gate;

extern uint32_t sosc_process_id; // 0: not known
extern uint32_t sosc_parent_id; // of a child that goes on: what its process was before; 0: not known

/**
 * A number that changes when this is no longer the process that it was: a signal
 * handler may fork in the middle of anything, and the child goes on there, with
 * everything of its threads wiped.
 */
static inline uint32_t sosc_process(void)
{
	return __atomic_load_n(sosc_alive, __ATOMIC_RELAXED);
}

/** Whether the agent makes no system calls; @thread is the caller or NULL. */
static inline bool sosc_is_sealed(const struct sosc_thread *thread)
{
	return sosc_is_process_sealed() || (thread && thread->sealed);
}

/** Whether a thread that was at no hook between two times may have waited for a processor. */
static inline bool sosc_is_long(uint64_t last, uint64_t now)
{
	return (int64_t)(now - last) > DELAY_LONG;
}

struct sosc_thread *sosc_thread_self(void);
void sosc_thread_vforked(struct sosc_thread *thread, bool child);
void sosc_thread_forks(void);
void sosc_thread_changes_rights(struct sosc_thread *thread);
uint32_t sosc_thread_writes_as(struct sosc_thread *thread, uint32_t tid);
int sosc_threads_init(int64_t tid_offset);
void sosc_threads_again(int64_t tid_offset);
void sosc_threads_rest(void);
bool sosc_is_quiet(void);
bool sosc_is_borrower(void);
bool sosc_thread_inherits(uint64_t sp);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_thread) == 1 << THREAD_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_thread, pos) == THREAD_POS, "layout.h");
_Static_assert(offsetof(struct sosc_thread, counts) == THREAD_COUNTS, "layout.h");
_Static_assert(offsetof(struct sosc_thread, stats) == THREAD_STATS, "layout.h");
_Static_assert(offsetof(struct sosc_thread, overhead) == THREAD_OVERHEAD, "layout.h");
_Static_assert(offsetof(struct sosc_thread, parked) == THREAD_PARKED, "layout.h");
_Static_assert(offsetof(struct sosc_thread, done) == THREAD_DONE, "layout.h");
_Static_assert(offsetof(struct sosc_thread, tid_check) == THREAD_TID, "layout.h");
_Static_assert(offsetof(struct sosc_thread, last) == THREAD_LAST, "layout.h");
_Static_assert(offsetof(struct sosc_thread, quiet) == THREAD_QUIET, "layout.h");

#endif
