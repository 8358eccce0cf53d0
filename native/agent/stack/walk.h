// SPDX-License-Identifier: Apache-2.0
/**
 * Call stacks, for any instrument: walks, and the table that holds each stack once. One instrument
 * of a session keeps stacks. Its own memory begins with struct sosc_blocks.
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

struct sosc_stack_call { // the call whose stack is wanted
	const struct sosc_thread *thread;
	struct sosc_view *view;
	uint64_t sp; // address of its return address
	uint64_t fp; // the caller's frame pointer, if it has one
	// address of the return address of a call that goes through a function of the agent, 0:
	// none is known
	uint64_t outer;
	bool native; // without an interpreter's frames
};

// walk.c
// thread pointer of the thread in which soscope runs its own code, 0 if there is none
extern uint64_t sosc_stack_visitor;
uint32_t sosc_stack_walk(const struct sosc_stack_call *call, enum sosc_block_api api);

enum sosc_nesting { // relation of a call to a call that began before it
	NESTING_INSIDE, // this call was made inside the other one, through the agent's frame
	NESTING_OVER, // the other call has no frame any more
	// this call is made by a signal handler, or through another function of the agent
	NESTING_APART,
	NESTING_UNKNOWN, // the frames between the two cannot be followed
};

enum sosc_nesting sosc_stack_nesting(const struct sosc_stack_call *call, uint64_t outer);

// stacktable.c
const struct sosc_blocks *sosc_stacks_start(enum sosc_instrument_kind kind,
					    struct sosc_blocks **own);
extern bool sosc_stacks_kept; // an instrument of this session keeps stacks
void sosc_stacks_look(const struct sosc_loaded *image);
void sosc_stacks_forked(void);
void sosc_stacks_forget(const struct sosc_loaded *image);
uint32_t sosc_stacks_most(void);
uint32_t sosc_stack_of(const uint64_t *frames, uint32_t count, uint64_t head, uint64_t hash);
uint32_t sosc_stack_code(const struct sosc_code *code, uint32_t minor);
const struct sosc_code *sosc_stack_code_at(uint32_t number);

/** An image was loaded. Inline, so that sessions without stacks need not load the code page. */
static inline void sosc_stacks_see(const struct sosc_loaded *image)
{
	if (sosc_stacks_kept)
		sosc_stacks_look(image);
}

#pragma GCC visibility pop

#endif
