// SPDX-License-Identifier: Apache-2.0
/** Calls that instrumented code reports itself, and the table of each thread. */
#ifndef SOSC_PROF_H
#define SOSC_PROF_H

#include "base/arch.h"
#include "soscope/prof.h"

#pragma GCC visibility push(hidden)

struct sosc_cell;
struct sosc_loaded;

struct sosc_prof_thread { // wiped in a forked child
	// thread pointer, + 1 if the thread has no table of its own; 0 if not filled in
	uint64_t key;
	struct sosc_prof_table *table;
	struct sosc_prof_frame *next; // the first unused frame
	uint32_t tid; // value at sosc_tid_offset
	uint32_t reserved;
};

struct sosc_prof_call { // a reported call
	uint64_t function;
	uint64_t site; // return address of its hook
	uint64_t from; // return address of the function
	uint64_t sp; // identifies the call among the open calls of its stack
	uint32_t hook; // enum sosc_prof_hook
};

extern struct sosc_prof *sosc_prof; // counters, NULL if the session has none
extern const struct sosc_prof *sosc_prof_given; // settings from soscope
extern bool sosc_prof_sees_exits; // returns are observed even of functions that do not report them
extern struct sosc_prof_thread *sosc_prof_threads;
extern struct sosc_prof_table *sosc_prof_shared; // for threads that have no table of their own

static inline struct sosc_prof_node *sosc_prof_nodes(struct sosc_prof_table *table)
{
	return (struct sosc_prof_node *)((uint8_t *)table + PROF_NODES);
}

/** Return the node at an offset, which may be part of a key. */
static inline struct sosc_prof_node *sosc_prof_node_at(struct sosc_prof_table *table, uint64_t key)
{
	return (struct sosc_prof_node *)((uint8_t *)table + PROF_NODES +
					 ((uint32_t)key & PROF_NODE_OFFSETS));
}

/** Return the first frame. */
static inline struct sosc_prof_frame *sosc_prof_frames(struct sosc_prof_table *table)
{
	return (struct sosc_prof_frame *)((uint8_t *)table + PROF_FRAMES) + 1;
}

/** Return the index at which the search for a node begins. Same as in PROF_FIND_NODE. */
static inline uint32_t sosc_prof_place(uint64_t key, uint64_t function)
{
	return (uint32_t)((key * 5 + function) * HINT_FACTOR >> (64 - PROF_NODE_BITS));
}

bool sosc_prof_tables_start(void);
void sosc_prof_rest(void);
struct sosc_prof_thread *sosc_prof_thread_slow(void);
struct sosc_prof_thread *sosc_prof_self(void);
void sosc_prof_mute(void);
struct sosc_prof_table *sosc_prof_table_of(const struct sosc_prof_thread *thread);
uint64_t sosc_prof_find_node(struct sosc_prof_table *table, uint64_t key,
			     const struct sosc_prof_call *call);
uint64_t sosc_prof_node_slow(struct sosc_prof_table *table, uint64_t key,
			     const struct sosc_prof_call *call);
void sosc_prof_mark(struct sosc_prof_table *table, const struct sosc_loaded *image);
void sosc_prof_closed(const struct sosc_loaded *image);
struct sosc_prof_frame *sosc_prof_settle(struct sosc_prof_thread *thread,
					 struct sosc_prof_table *table,
					 const struct sosc_prof_call *call);
struct sosc_prof_frame *sosc_prof_find(struct sosc_prof_thread *thread,
				       struct sosc_prof_table *table, uint64_t function,
				       uint64_t from, uint64_t sp);
void sosc_prof_close(struct sosc_prof_table *table, struct sosc_prof_frame *frame, uint64_t now);
void sosc_prof_pop(struct sosc_prof_thread *thread, struct sosc_prof_frame *frame);
void sosc_prof_leave_all(struct sosc_prof_thread *thread, struct sosc_prof_table *table);

// depends on the code of hooks: code_<processor>_hooks.c
uint64_t *sosc_prof_return_slot(uint32_t hook, uint64_t site, uint64_t *first);
bool sosc_prof_is_unseen(uint32_t hook, uint64_t site);

// ---- called from assembly, or only known by their address -------------------------

void sosc_prof_quiet(void);
void sosc_prof_entry_quiet(void);
void sosc_h_prof_count(void);
void sosc_h_prof_enter(void);
void sosc_h_prof_enter_some(void);
void sosc_h_prof_exit(void);
void sosc_h_prof_exit_some(void);
void sosc_h_prof_bare(void);
void sosc_h_prof_own_count(void);
void sosc_h_prof_own_enter(void);
void sosc_h_prof_own_exit(void);
void sosc_h_prof_own_bare(void);
void sosc_h_prof_mcount_count(void);
void sosc_h_prof_fentry_count(void);
void sosc_h_prof_mcount(void);
void sosc_h_prof_mcount_some(void);
void sosc_h_prof_fentry(void);
void sosc_h_prof_fentry_some(void);
void sosc_h_prof_entry(void);
void sosc_h_prof_entry_some(void);
void sosc_h_prof_entry_count(void);
void sosc_x_prof(void);
void sosc_prof_fake_mcount(void);
void sosc_prof_fake_fentry(void);
void sosc_prof_fake_cyg(void);
void sosc_prof_enter(uint64_t function, uint64_t from, uint64_t site, uint64_t sp);
void sosc_prof_exit(uint64_t function, uint64_t from, uint64_t sp, uint64_t now);
void sosc_prof_begin_late(struct sosc_prof_table *table, struct sosc_prof_frame *frame);
void sosc_prof_bare(uint64_t site);
void sosc_prof_count_slow(uint64_t function, uint64_t from, uint64_t site);
void sosc_prof_count_hook(uint64_t site, uint64_t *slot, uint32_t hook);
void sosc_prof_called(uint64_t site, uint64_t *slot, struct sosc_cell *cell, uint32_t hook);
void sosc_prof_returned(uint64_t code, uint64_t sp, uint64_t now);

#pragma GCC visibility pop

#define PROF_SAME(struct_name, field, number) \
	_Static_assert(offsetof(struct struct_name, field) == (number), "layout.h")

_Static_assert(sizeof(struct sosc_prof_thread) == 1 << PROF_THREAD_SHIFT, "layout.h");
PROF_SAME(sosc_prof_thread, key, PROF_THREAD_KEY);
PROF_SAME(sosc_prof_thread, table, PROF_THREAD_TABLE);
PROF_SAME(sosc_prof_thread, next, PROF_THREAD_NEXT);
PROF_SAME(sosc_prof_thread, tid, PROF_THREAD_TID);
PROF_SAME(sosc_prof_table, done, PROF_TABLE_DONE);
PROF_SAME(sosc_prof_table, last, PROF_TABLE_LAST);
_Static_assert(sizeof(struct sosc_prof_node) == 1 << PROF_NODE_SHIFT, "layout.h");
PROF_SAME(sosc_prof_node, key, PROF_NODE_KEY);
PROF_SAME(sosc_prof_node, function, PROF_NODE_FUNCTION);
PROF_SAME(sosc_prof_node, calls, PROF_NODE_CALLS);
PROF_SAME(sosc_prof_node, total, PROF_NODE_TOTAL);
PROF_SAME(sosc_prof_node, self, PROF_NODE_SELF);
PROF_SAME(sosc_prof_node, timed, PROF_NODE_TIMED);
PROF_SAME(sosc_prof_node, flags, PROF_NODE_FLAGS);
_Static_assert(PROF_NODE_ODD == (SOSC_PROF_NODE_UNSEEN | SOSC_PROF_NODE_ALIAS), "layout.h");
_Static_assert(sizeof(struct sosc_prof_frame) == 1 << PROF_FRAME_SHIFT, "layout.h");
_Static_assert(sizeof(struct sosc_prof_frame) == PROF_FRAME_SIZE, "layout.h");
PROF_SAME(sosc_prof_frame, place, PROF_FRAME_PLACE);
PROF_SAME(sosc_prof_frame, start, PROF_FRAME_START);
PROF_SAME(sosc_prof_frame, done, PROF_FRAME_DONE);
PROF_SAME(sosc_prof_frame, site, PROF_FRAME_SITE);
PROF_SAME(sosc_prof_frame, from, PROF_FRAME_FROM);
PROF_SAME(sosc_prof_frame, key, PROF_FRAME_KEY);
PROF_SAME(sosc_prof_frame, function, PROF_FRAME_FUNCTION);
PROF_SAME(sosc_prof_frame, flags, PROF_FRAME_FLAGS);
PROF_SAME(sosc_prof_frame, commit, PROF_FRAME_COMMIT);
#undef PROF_SAME

_Static_assert((int)SOSC_PROF_NODE_BITS == PROF_NODE_BITS, "layout.h");
_Static_assert((int)SOSC_PROF_HEAD == PROF_NODES, "layout.h");
_Static_assert((int)SOSC_PROF_TABLE_SIZE == PROF_FRAMES_END, "layout.h");
_Static_assert((int)SOSC_PROF_NODES == 1 << PROF_NODE_BITS, "soscope/prof.h");
_Static_assert(SOSC_PROF_FRAMES *PROF_FRAME_SIZE == PROF_FRAMES_END - PROF_FRAMES, "layout.h");

#endif
