// SPDX-License-Identifier: Apache-2.0
/** Counting of live objects, for any interpreter that makes them. */
#ifndef SOSC_OBJECTS_H
#define SOSC_OBJECTS_H

#include "objects/common/side.h"
#include "vm/origin.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

extern bool sosc_objects_count; // objects are counted in this process now
extern bool sosc_objects_types; // nobody asks where objects are made, only of which types
extern bool sosc_objects_asked; // the program itself has asked for its objects
extern uint32_t sosc_objects_since; // SOSC_SIDE_SINCE, or 0 if the program itself does not count
extern bool sosc_objects_begun; // the program itself, not soscope, has started the counting
extern bool sosc_objects_made; // the program counts all objects that are made, by type
extern bool sosc_objects_told; // the program itself has asked at some time
extern struct sosc_ruby sosc_ruby; // what soscope reads of Ruby's state

/**
 * An object has been made in the block at @addr. @word is the block's word of the side table, or
 * NULL if it has none yet. @shift: see SOSC_SIDE_SHIFT.
 */
static inline void sosc_object_made(uint64_t addr, uint32_t *word, uint32_t shift, uint32_t origin)
{
	sosc_objects_tally.created++;
	if (!word)
		word = sosc_side_make(addr);
	if (word)
		*word = SOSC_SIDE_USED | shift << SOSC_SIDE_SHIFT | sosc_objects_since | origin;
	else
		sosc_objects_tally.lost++;
}

/** The block at @addr is about to be freed. */
static inline void sosc_object_freed(uint64_t addr)
{
	uint32_t *word = sosc_side_at(addr);

	if (word && *word) {
		*word = 0;
		sosc_objects_tally.destroyed++;
	}
}

const struct sosc_objects *sosc_objects_plan(void);
const struct sosc_python *sosc_objects_layouts(uint32_t *count);
void sosc_objects_alone(const struct sosc_python *layouts, uint32_t count);
void sosc_objects_tell(struct sosc_program *program);
bool sosc_objects_begin(enum sosc_objects_runtime runtime, uint32_t minor);
void sosc_objects_ready(void);
void sosc_objects_done(enum sosc_objects_order order);
enum sosc_objects_refusal sosc_objects_refused(void);
void sosc_objects_refuse(enum sosc_objects_refusal why, const char *text);
void sosc_objects_start(void);
void sosc_objects_forked(void);
void sosc_objects_quiet(void);
bool sosc_objects_are_ours(void);
const struct sosc_objects_place *sosc_objects_place(void);
bool sosc_objects_ask(enum sosc_objects_reason reason);

#pragma GCC visibility pop

// wayin.c
void sosc_objects_rest(void);
long soscope_agent_objects(const struct sosc_objects_call *call);
long soscope_agent_program(struct sosc_program *program);

#endif
