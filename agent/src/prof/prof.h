// SPDX-License-Identifier: Apache-2.0
/**
 * Calls that instrumented code reports itself: each thread's table of them.
 */
#ifndef SOSC_PROF_H
#define SOSC_PROF_H

#include "arch.h"
#include "soscope/prof.h"

#pragma GCC visibility push(hidden)

struct sosc_cell;

struct sosc_prof_thread { // wiped in a forked child
	uint64_t key; // thread pointer, 0 = not filled in
	uint64_t table; // addr of its own, 0: it has none
	uint32_t tid; // what stands at sosc_tid_offset
	uint32_t reserved;
	uint64_t reserved1;
};

struct sosc_prof_call { // that is reported
	uint64_t function;
	uint64_t site; // where its hook returns to
	uint64_t from; // its return address
	uint64_t sp; // what tells it from other open calls of its stack
	uint32_t hook; // enum sosc_prof_hook
};

extern struct sosc_prof *sosc_prof; // NULL: this session has none
extern struct sosc_prof_thread *sosc_prof_threads;
extern struct sosc_prof_table *sosc_prof_shared; // of threads that have none of their own

static inline struct sosc_prof_node *sosc_prof_nodes(struct sosc_prof_table *table)
{
	return (struct sosc_prof_node *)((uint8_t *)table + PROF_HEAD);
}

static inline struct sosc_prof_frame *sosc_prof_frames(struct sosc_prof_table *table)
{
	return (struct sosc_prof_frame *)(sosc_prof_nodes(table) + SOSC_PROF_NODES);
}

/** Where the search for a node begins; as PROF_FIND_NODE. */
static inline uint32_t sosc_prof_place(uint64_t key, uint64_t function)
{
	return (uint32_t)((key * 5 + function) * HINT_FACTOR >> (64 - PROF_NODE_BITS));
}

bool sosc_prof_tables_start(void);
struct sosc_prof_table *sosc_prof_table_slow(void);
uint32_t sosc_prof_node_slow(struct sosc_prof_table *table, uint64_t key,
			     const struct sosc_prof_call *call);
uint32_t sosc_prof_settle(struct sosc_prof_table *table, const struct sosc_prof_call *call);
struct sosc_prof_frame *sosc_prof_find(struct sosc_prof_table *table, uint64_t function,
				       uint64_t from, uint64_t sp);
void sosc_prof_close(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t now);
void sosc_prof_pop(struct sosc_prof_table *table, struct sosc_prof_frame *frame);
void sosc_prof_leave_all(struct sosc_prof_table *table);

// What depends on the code of hooks: code_<processor>_hooks.c
uint64_t *sosc_prof_return_slot(uint32_t hook, uint64_t site, uint64_t *first);
bool sosc_prof_is_unseen(uint32_t hook, uint64_t site);
bool sosc_prof_has_shadow_stack(void);

// ---- called from assembly, or only known by their address -------------------------

void sosc_prof_quiet(void);
void sosc_h_prof_count(void);
void sosc_h_prof_mcount_count(void);
void sosc_h_prof_fentry_count(void);
void sosc_h_prof_mcount(void);
void sosc_h_prof_fentry(void);
void sosc_x_prof(void);
void sosc_prof_fake_mcount(void);
void sosc_prof_fake_fentry(void);
void sosc_prof_fake_cyg(void);
void sosc_prof_enter(uint64_t function, uint64_t from);
void sosc_prof_exit(uint64_t function, uint64_t from);
void sosc_prof_bare(void);
void sosc_prof_count_slow(uint64_t function, uint64_t from, uint64_t site);
void sosc_prof_count_hook(uint64_t site, uint64_t *slot, uint32_t hook);
void sosc_prof_called(uint64_t site, uint64_t *slot, struct sosc_cell *cell, uint32_t hook);
void sosc_prof_returned(struct sosc_regs *regs);

#pragma GCC visibility pop

_Static_assert(sizeof(struct sosc_prof_thread) == 1 << PROF_THREAD_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_prof_thread, key) == PROF_THREAD_KEY, "layout.h");
_Static_assert(offsetof(struct sosc_prof_thread, table) == PROF_THREAD_TABLE, "layout.h");
_Static_assert(offsetof(struct sosc_prof_thread, tid) == PROF_THREAD_TID, "layout.h");
_Static_assert(sizeof(struct sosc_prof_node) == 1 << PROF_NODE_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_prof_node, key) == PROF_NODE_KEY, "layout.h");
_Static_assert(offsetof(struct sosc_prof_node, function) == PROF_NODE_FUNCTION, "layout.h");
_Static_assert(offsetof(struct sosc_prof_node, calls) == PROF_NODE_CALLS, "layout.h");
_Static_assert((int)SOSC_PROF_NODE_BITS == PROF_NODE_BITS, "layout.h");
_Static_assert((int)SOSC_PROF_HEAD == PROF_HEAD, "layout.h");
_Static_assert(SOSC_PROF_HEAD + SOSC_PROF_NODES * sizeof(struct sosc_prof_node) +
			       SOSC_PROF_FRAMES * sizeof(struct sosc_prof_frame) ==
		       SOSC_PROF_TABLE_SIZE,
	       "soscope/prof.h");

#endif
