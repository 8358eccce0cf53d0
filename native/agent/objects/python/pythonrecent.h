// SPDX-License-Identifier: Apache-2.0
/**
 * Words of the side table that objects got recently, by the place where they were made and by their
 * type.
 */
#ifndef SOSC_PYTHONRECENT_H
#define SOSC_PYTHONRECENT_H

#include "objects/common/objects.h"

#pragma GCC visibility push(hidden)

enum {
	SOSC_RECENT = 1024, // a power of two
	SOSC_RECENT_SIZE = 64, // bytes of an entry
	SOSC_RECENT_CODE = 47, // bits of a code object's address
	// an instruction has to be nearer than this to the start of its code
	SOSC_RECENT_OFFSET = 1 << 16,
};

struct sosc_recent {
	// a word in the upper half, and in the lower 32 bits the epoch to which it belongs
	uint64_t what;
	uint64_t where; // see sosc_recent_where
	uint64_t type;
	// address in the code object that holds its file, and the file at that time
	uint64_t file_at;
	uint64_t file;
} __attribute__((aligned(SOSC_RECENT_SIZE)));

struct sosc_recent_ways { // the part of struct sosc_python that is needed for each object
	// address of the pointer to the state of the thread that holds the GIL, 0 if a function has
	// to be called
	uint64_t state;
	uint64_t code_mask; // bits of the pointer that are the address
	uint32_t state_frame, inner_frame;
	uint32_t frame_code, frame_instr;
	uint32_t has_pointers; // frames hold an instruction's address
};

extern struct sosc_recent sosc_recent[SOSC_RECENT];
extern struct sosc_recent_ways sosc_recent_ways;
extern uint32_t sosc_recent_epoch; // increased by each object that may make entries wrong

static inline struct sosc_recent *sosc_recent_at(uint64_t where, uint64_t type, bool has_pointers)
{
	uint64_t mixed = where;

	if (!has_pointers)
		mixed = where / 8 + (where >> SOSC_RECENT_CODE) * 2;
	mixed = mixed * 8 + type; // addresses of code objects and types are multiples of 16
	return (struct sosc_recent *)((uint64_t)sosc_recent +
				      (mixed * (SOSC_RECENT_SIZE / 16) &
				       (SOSC_RECENT - 1) * SOSC_RECENT_SIZE));
}

/** Return a word for the instruction in the code object, or 0 if both do not fit into one word. */
static inline uint64_t sosc_recent_join(uint64_t code, uint64_t instr, bool has_pointers)
{
	if (has_pointers)
		return instr;
	return instr < SOSC_RECENT_OFFSET ? code | instr << SOSC_RECENT_CODE : 0;
}

/**
 * Return a word for the place where the thread that holds the GIL is, or 0 if the slow path has to
 * find out. @state: the thread's state.
 */
static inline uint64_t sosc_recent_where(uint64_t state, bool has_pointers)
{
	const struct sosc_recent_ways *at = &sosc_recent_ways;
	uint64_t frame;

	if (!state)
		return 0;
	frame = *(const uint64_t *)(state + at->state_frame);
	if (at->inner_frame != SOSC_NONE)
		frame = *(const uint64_t *)(frame + at->inner_frame);
	if (!frame)
		return 0;
	if (has_pointers) // the instruction of a shim lies in code that has no entry
		return *(const uint64_t *)(frame + at->frame_instr);
	return sosc_recent_join(*(const uint64_t *)(frame + at->frame_code) & at->code_mask,
				*(const uint32_t *)(frame + at->frame_instr), false);
}

/**
 * Return whether an object of @type was made at @where recently. If so, @word becomes its word,
 * without SOSC_SIDE_SINCE. As long as the epoch lasts, no type or code object has been replaced by
 * another.
 */
static inline bool sosc_recent_look(uint64_t where, uint64_t type, bool has_pointers,
				    uint32_t *word)
{
	const struct sosc_recent *entry = sosc_recent_at(where, type, has_pointers);

	if (entry->where != where || entry->type != type ||
	    (uint32_t)entry->what != sosc_recent_epoch ||
	    *(const uint64_t *)entry->file_at != entry->file)
		return false;
	*word = (uint32_t)(entry->what >> 32);
	return true;
}

/** The same, if several interpreters with a GIL each may change an entry while it is read. */
static inline bool sosc_recent_look_shared(uint64_t where, uint64_t type, bool has_pointers,
					   uint32_t *word)
{
	const struct sosc_recent *entry = sosc_recent_at(where, type, has_pointers);
	uint64_t what = __atomic_load_n(&entry->what, __ATOMIC_ACQUIRE);
	uint64_t file_at = __atomic_load_n(&entry->file_at, __ATOMIC_ACQUIRE);
	uint64_t file = __atomic_load_n(&entry->file, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&entry->where, __ATOMIC_ACQUIRE) != where ||
	    __atomic_load_n(&entry->type, __ATOMIC_ACQUIRE) != type ||
	    __atomic_load_n(&entry->what, __ATOMIC_ACQUIRE) != what ||
	    (uint32_t)what != sosc_recent_epoch || *(const uint64_t *)file_at != file)
		return false;
	*word = (uint32_t)(what >> 32);
	return *word;
}

void sosc_recent_forget(void);
void sosc_recent_begin(const struct sosc_python *layout, uint64_t state);
void sosc_recent_keep(const struct sosc_recent *made);

#pragma GCC visibility pop

#endif
