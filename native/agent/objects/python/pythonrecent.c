// SPDX-License-Identifier: Apache-2.0
// An entry keeps the word that an object got. The next object of the same type that the same
// instruction makes gets the same word, as long as the code object and the type at these addresses
// are still the same. If there are others, they have been made since, and the agent has been told.
// Only the file of a code object may be changed without that.

#include "objects/python/pythonrecent.h"
#include "vm/origin.h"

struct sosc_recent sosc_recent[SOSC_RECENT];
struct sosc_recent_ways sosc_recent_ways;
uint32_t sosc_recent_epoch;

/** An object is made that may have the address of a type or code object in one of the entries. */
void sosc_recent_forget(void)
{
	if (!__atomic_add_fetch(&sosc_recent_epoch, 1, __ATOMIC_ACQ_REL))
		// entries of old epochs, since the numbers begin again
		memset(sosc_recent, 0, sizeof(sosc_recent));
}

/** Call when objects begin to be counted. @state: see struct sosc_recent_ways. */
void sosc_recent_begin(const struct sosc_python *layout, uint64_t state)
{
	sosc_recent_forget();
	sosc_recent_ways = (struct sosc_recent_ways){
		.state = state,
		.code_mask = ~(uint64_t)layout->frame_tag,
		.state_frame = layout->state_frame,
		.inner_frame = layout->inner_frame,
		.frame_code = layout->frame_code,
		.frame_instr = layout->frame_instr,
		.has_pointers = layout->instr_kind == SOSC_INSTR_POINTER,
	};
}

/**
 * Make an entry for the next object like @made. If another thread is making an entry, this one
 * makes none.
 */
void sosc_recent_keep(const struct sosc_recent *made)
{
	uint32_t *lock = &sosc_origin_locks[ORIGIN_LOCK_RECENT];
	struct sosc_recent *entry;

	if (!made->where || __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		return;
	entry = sosc_recent_at(made->where, made->type, sosc_recent_ways.has_pointers);
	__atomic_store_n(&entry->what, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->where, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->type, made->type, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->file_at, made->file_at, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->file, made->file, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->where, made->where, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->what, made->what, __ATOMIC_RELEASE);
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}
