// SPDX-License-Identifier: Apache-2.0
/**
 * Stacks of calls, for whatever instrument wants them: walks, and the table that has each stack
 * once. One instrument of a session keeps stacks: its own memory begins with struct sosc_blocks.
 */
#ifndef SOSC_WALK_H
#define SOSC_WALK_H

#include "base/instrument.h"
#include "stack/view.h"
#include "soscope/blocks.h"

#pragma GCC visibility push(hidden)

struct sosc_code;
struct sosc_loaded;
struct sosc_thread;

struct sosc_stack_call { // whose stack is wanted
	const struct sosc_thread *thread;
	struct sosc_view *view;
	uint64_t sp; // where the return address lies
	uint64_t fp; // the caller's frame pointer, if it has one
	uint64_t outer; // the return address of a call that a function of ours makes, 0: none is known
	bool native; // without an interpreter's frames
};

// walk.c
extern uint64_t sosc_stack_visitor; // thread pointer of whom soscope has run its own code; 0: nobody
uint32_t sosc_stack_walk(const struct sosc_stack_call *call, enum sosc_block_api api);

enum sosc_nesting { // of a call, and of one that was begun before it
	NESTING_INSIDE, // the other one has a frame of ours, which has led to this one
	NESTING_OVER, // the other one has no frame any more
	NESTING_APART, // a signal handler makes this one, or another function of ours does
	NESTING_UNKNOWN, // nobody can tell what lies between the two
};

enum sosc_nesting sosc_stack_nesting(const struct sosc_stack_call *call, uint64_t outer);

// stacktable.c
const struct sosc_blocks *sosc_stacks_start(enum sosc_instrument_kind kind,
					    struct sosc_blocks **own);
extern bool sosc_stacks_kept; // by an instrument of this session
void sosc_stacks_look(const struct sosc_loaded *image);
void sosc_stacks_forked(void);
void sosc_stacks_forget(const struct sosc_loaded *image);
uint32_t sosc_stacks_most(void);
uint32_t sosc_stack_of(const uint64_t *frames, uint32_t count, uint64_t head, uint64_t hash);
uint32_t sosc_stack_code(const struct sosc_code *code, uint32_t minor);
const struct sosc_code *sosc_stack_code_at(uint32_t number);

/** An image is there. Here, so that nobody's code page is needed who keeps no stacks. */
static inline void sosc_stacks_see(const struct sosc_loaded *image)
{
	if (sosc_stacks_kept)
		sosc_stacks_look(image);
}

#pragma GCC visibility pop

#endif
