// SPDX-License-Identifier: Apache-2.0
/**
 * Words of the side table that objects got not long ago, by where they were made and by their type.
 */
#ifndef SOSC_PYTHONRECENT_H
#define SOSC_PYTHONRECENT_H

#include "objects/common/objects.h"

#pragma GCC visibility push(hidden)

enum {
	SOSC_RECENT = 1024, // a power of two
	SOSC_RECENT_SIZE = 64, // bytes of an entry
	SOSC_RECENT_CODE = 47, // bits of a code object's address,
	SOSC_RECENT_OFFSET = 1 << 16, // and how far an instruction may be in it
};

struct sosc_recent {
	uint64_t what; // a word, and behind it 32 bits of the epoch it is of
	uint64_t where; // see sosc_recent_where
	uint64_t type;
	uint64_t file_at; // where the code object has its file, and which one that was
	uint64_t file;
} __attribute__((aligned(SOSC_RECENT_SIZE)));

struct sosc_recent_ways { // the part of struct sosc_python that is needed for each object
	uint64_t state; // addr of the state of the thread that holds the GIL; 0: one has to ask
	uint64_t code_mask; // bits that count
	uint32_t state_frame, inner_frame;
	uint32_t frame_code, frame_instr;
	uint32_t has_pointers; // frames have an instruction's address
};

extern struct sosc_recent sosc_recent[SOSC_RECENT];
extern struct sosc_recent_ways sosc_recent_ways;
extern uint32_t sosc_recent_epoch; // one more with each object that makes entries untrue

static inline struct sosc_recent *sosc_recent_at(uint64_t where, uint64_t type, bool has_pointers)
{
	uint64_t mixed = where;

	if (!has_pointers)
		mixed = where / 8 + (where >> SOSC_RECENT_CODE) * 2;
	mixed = mixed * 8 + type; // code objects and types are at multiples of 16
	return (struct sosc_recent *)((uint64_t)sosc_recent +
				      (mixed * (SOSC_RECENT_SIZE / 16) &
				       (SOSC_RECENT - 1) * SOSC_RECENT_SIZE));
}

/** Which instruction of which code object, 0: that cannot be told in a word. */
static inline uint64_t sosc_recent_join(uint64_t code, uint64_t instr, bool has_pointers)
{
	if (has_pointers)
		return instr;
	return instr < SOSC_RECENT_OFFSET ? code | instr << SOSC_RECENT_CODE : 0;
}

/** Where a thread is that holds the GIL, 0: that takes a closer look. @state: the thread's. */
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
	if (has_pointers) // a shim's is in code that has no entry
		return *(const uint64_t *)(frame + at->frame_instr);
	return sosc_recent_join(*(const uint64_t *)(frame + at->frame_code) & at->code_mask,
				*(const uint32_t *)(frame + at->frame_instr), false);
}

/**
 * Whether an object of @type was made at @where lately; then @word is its word, without
 * SOSC_SIDE_SINCE. While the epoch lasts, all types and code objects are those that they were.
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

/** The same, where interpreters with a GIL each may change an entry while it is read. */
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
