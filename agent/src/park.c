// SPDX-License-Identifier: Apache-2.0
// Parked calls: a table for each thread, found by the place of the return address.

#include "park.h"
#include "cell.h"
#include "guard.h"
#include "instrument.h"
#include "sys.h"

struct sosc_parked sosc_parked_fallback[PARKED_COUNT + PARKED_PROBES];

/** Give @thread a table for its parked calls: without one of its own, it shares one. */
void sosc_parked_give(struct sosc_thread *thread)
{
	struct sosc_parked *none = NULL;
	void *map = sosc_parked_fallback;

	if (thread->parked)
		return; // of an earlier session, or another thread's that has ended
	if (sosc_needs & SOSC_NEEDS_PARKED && !sosc_is_sealed(thread))
		map = sosc_mmap(NULL, SOSC_PARKED_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sosc_mmap_failed(map))
		map = sosc_parked_fallback;
	// a signal handler may have got one meanwhile
	if (!__atomic_compare_exchange_n(&thread->parked, &none, map, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    map != sosc_parked_fallback)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, SOSC_PARKED_SIZE, 0);
}

// NULL in a child that a handler has forked since @thread was found.
static struct sosc_parked *first_place(struct sosc_thread *thread, uint64_t sp)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);
	uint64_t spread = sp + (sp >> PARKED_WINDOW) * PARKED_SPREAD;

	return parked ? parked + (spread >> 4 & (PARKED_COUNT - 1)) : NULL;
}

struct sosc_parked *sosc_parked_find(struct sosc_thread *thread, uint64_t sp, uint64_t cell)
{
	struct sosc_parked *parked = first_place(thread, sp), *latest = NULL;

	if (!parked)
		return NULL;
	// Two of the same are one that has tail-called itself: the later returns first.
	for (int i = 0; i < PARKED_PROBES; i++, parked++)
		if (parked->sp == sp && parked->cell == cell && (!latest || parked->a >= latest->a))
			latest = parked;
	return latest;
}

// Whether both are calls that one instrument sees. @key is 0 where a session began while a signal
// handler had interrupted the one that parked: the call was of the session before.
static bool same_instrument(uint64_t key, const struct sosc_cell *cell)
{
	uint64_t index = (key - (uint64_t)sosc_cells) / sizeof(*cell);

	return !key ||
	       sosc_layers[index].instrument == sosc_layers[sosc_cell_index(cell)].instrument;
}

/**
 * A place for a call of @cell whose return address lies at @sp: a free one, or that of a
 * call that can no longer return. Calls at the same address are alive only where one has
 * tail-called the other (@tail_called), or where they are one call that two instruments
 * see. Where all places are taken, calls whose frame lies below ours, within a stack's
 * reach, have been left by longjmp or an exception; or they are those of a coroutine, and
 * lose their place. NULL when there is none of these either.
 */
struct sosc_parked *sosc_parked_place(struct sosc_thread *thread, uint64_t sp,
				      const struct sosc_cell *cell, bool tail_called)
{
	struct sosc_parked *parked = first_place(thread, sp);
	struct sosc_parked *place = NULL, *below = NULL;

	if (!parked)
		return NULL;
	for (int i = 0; i < PARKED_PROBES; i++, parked++) {
		if (parked->sp == sp && !tail_called && same_instrument(parked->cell, cell))
			parked->sp = 0;
		if (!parked->sp && !place)
			place = parked;
		if (parked->sp < sp && sp - parked->sp < 1 << 20)
			below = parked;
	}
	if (!place && below) {
		below->sp = 0;
		place = below;
	}
	return place;
}

/** The thread's room for a long read; NULL where it is taken, or where there is none. */
struct sosc_scratch *sosc_scratch_take(const struct sosc_thread *thread)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);
	struct sosc_scratch *scratch = (void *)((uint8_t *)parked + SOSC_PARKED_ROOM);

	if (!parked || parked == sosc_parked_fallback)
		return NULL;
	return __atomic_exchange_n(&scratch->is_taken, 1, __ATOMIC_ACQUIRE) ? NULL : scratch;
}

void sosc_scratch_give(struct sosc_scratch *scratch)
{
	__atomic_store_n(&scratch->is_taken, 0, __ATOMIC_RELEASE);
}
