// SPDX-License-Identifier: Apache-2.0
/** Threads, found by their thread pointer, and the forked children in which they continue. */
#ifndef SOSC_THREAD_H
#define SOSC_THREAD_H

#include "base/state.h"

#pragma GCC visibility push(hidden)

struct sosc_parked;

enum {
	THREAD_HELD = 6,
	THREAD_OWED = 3,
	THREAD_READY = 1,
	THREAD_WAITED = 2, // has waited for a chunk since it began to wait for one
};

// Values of sosc_thread.pos without a chunk: this plus any multiple of SOSC_CHUNK_SIZE
enum { SOSC_NO_ROOM = CHUNK_LIMIT };

struct sosc_thread { // found by thread pointer; wiped in a forked child
	// thread pointer, 0 = free; set last; changes when the thread has ended and another takes
	// the place
	uint64_t key;
	uint64_t pos; // address of the next unit; low bits >= CHUNK_LIMIT: no chunk
	// the thread's count array, biased so that a cell's address indexes it; there are two,
	// because an interrupted thread may continue in a session of the other instrument
	uint64_t counts; // COUNT's
	uint64_t stats; // STATS's
	uint64_t overhead; // ticks that the agent took, not the program
	struct sosc_parked *parked;
	uint64_t done; // -c: ticks of calls that have returned, nested ones counted once
	uint32_t tid_check; // the word at sosc_tid_offset
	uint32_t tid;
	uint32_t pid;
	uint32_t chunk; // index in the ring + 1, SOSC_NONE = none, 0 if not filled in yet
	// chunks with an interrupted writer: index << 32 | bytes taken, 0 = none
	uint64_t held[THREAD_HELD];
	uint8_t borrowed; // 1: a vfork child runs in its parent's place
	uint8_t quiet; // 1: a vfork child that is not followed
	uint8_t sealed; // a vfork child's own sosc_sealed
	uint8_t ready; // THREAD_READY once filled in; may have THREAD_WAITED
	uint32_t turns; // makes all values of pos without a chunk different
	// see delay.c
	uint64_t last; // tsc of the last entry or exit
	// tsc when the kernel was last asked how long the thread has waited, 0 if never
	uint64_t asked;
	uint64_t sure; // tsc up to which all waits are known
	uint64_t waited; // the kernel's answer, in ns
	uint32_t switches; // number of context switches at that time
	uint32_t works; // pieces of work, one in COST_EVERY of which is timed; see work.h
	uint64_t taken; // ticks that were subtracted from all times
	uint64_t told; // the part of these that PROF knows
	uint64_t entered; // tsc of the last entry; `last` may be 0 meanwhile
	// the part of these ticks that no unit contains yet; since: tsc
	struct sosc_owed {
		uint64_t since, ticks;
	} owed[THREAD_OWED];
	// see work.h
	uint64_t accounted; // ticks of the agent that are counted separately
	uint64_t accounted_then; // value of `accounted` when the last timed work began
};

extern struct sosc_thread *sosc_threads;
// offset of the kernel's thread id from the thread pointer, 0 if unknown
extern int64_t sosc_tid_offset;
extern bool sosc_quiet; // 1: a child that is not followed, or the recording has ended

extern const uint32_t *sosc_alive; // a word that is zero in a forked child
// Holds the address of this process's word of SOSC_SEC_GATES; 0 in a forked child.
extern uint64_t *sosc_gate;

extern uint32_t sosc_process_id; // 0 if unknown
extern uint32_t sosc_parent_id; // in a recorded child: process id of its parent, 0 if unknown

/**
 * Return a number that changes when this process is no longer the same: a signal handler may fork
 * at any point, and the child continues there, with all state of its threads wiped.
 */
static inline uint32_t sosc_process(void)
{
	return __atomic_load_n(sosc_alive, __ATOMIC_RELAXED);
}

/** Return whether the agent makes no system calls. @thread is the caller or NULL. */
static inline bool sosc_is_sealed(const struct sosc_thread *thread)
{
	return sosc_is_process_sealed() || (thread && thread->sealed);
}

/**
 * Return whether a thread that was at no hook between two times may have waited for a processor.
 */
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
