// SPDX-License-Identifier: Apache-2.0
// What was told of an object is true of the next one of its type that the same instruction makes, as
// long as there is no other code object, and no other type, where those were. Where there is one, it
// has been made, and we have heard of that. Only the file of a code object may change in its place.

#include "objects/python/pythonrecent.h"
#include "vm/origin.h"

struct sosc_recent sosc_recent[SOSC_RECENT];
struct sosc_recent_ways sosc_recent_ways;
uint32_t sosc_recent_epoch;

/** An object is made that may be where one was that entries tell of. */
void sosc_recent_forget(void)
{
	if (!__atomic_add_fetch(&sosc_recent_epoch, 1, __ATOMIC_ACQ_REL))
		memset(sosc_recent, 0, sizeof(sosc_recent)); // from epochs that come again
}

/** Objects are counted from now on. @state: see struct sosc_recent_ways. */
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

/** Have the next object like @made found. Whoever is second does without. */
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
