// SPDX-License-Identifier: Apache-2.0
// Parked calls: a table for each thread, indexed by the address at which the return address lies.

#include "thread/park.h"
#include "base/instrument.h"
#include "base/state.h"
#include "base/sys.h"
#include "thread/thread.h"

// `sp` of a filling that is being written: a signal handler takes another one
enum { BEING_FILLED_IN = 1 };

struct sosc_parked sosc_parked_fallback[PARKED_COUNT + PARKED_PROBES];

/** Give @thread a table for its parked calls. Without its own, a thread uses the shared table. */
void sosc_parked_give(struct sosc_thread *thread)
{
	struct sosc_parked *none = NULL;
	void *map = sosc_parked_fallback;

	if (thread->parked)
		return; // a table of an earlier session, or of a thread that has ended
	if (sosc_needs & SOSC_NEEDS_PARKED && !sosc_is_sealed(thread))
		map = sosc_mmap(NULL, SOSC_PARKED_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sosc_mmap_failed(map))
		map = sosc_parked_fallback;
	// a signal handler may have got a table meanwhile
	if (!__atomic_compare_exchange_n(&thread->parked, &none, map, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    map != sosc_parked_fallback)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, SOSC_PARKED_SIZE, 0);
}

/** Take the table of parked calls away from @thread, which makes no more hooked calls. */
void sosc_parked_take(struct sosc_thread *thread)
{
	struct sosc_parked *parked = thread->parked;

	thread->parked = NULL;
	if (parked && parked != sosc_parked_fallback)
		(void)sosc_sys3(SYS_MUNMAP, (long)parked, SOSC_PARKED_SIZE, 0);
}

// Each call may lie in two ranges of the table: the range of its own stack window, and the range
// where it would be if the window above continued. A recursion of small frames that crosses from
// one window to the next collides with itself in the first range, and continues in the second.
enum { WAYS = 2 };

// Returns NULL in a child that a signal handler has forked since @thread was found.
static struct sosc_parked *first_place(struct sosc_thread *thread, uint64_t sp, int way)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);
	uint64_t spread = sp + ((sp >> PARKED_WINDOW) + (uint64_t)way) * PARKED_SPREAD;

	return parked ? parked + (spread >> 4 & (PARKED_COUNT - 1)) : NULL;
}

struct sosc_parked *sosc_parked_find(struct sosc_thread *thread, uint64_t sp, uint64_t cell)
{
	struct sosc_parked *parked, *latest = NULL;
	bool is_full = true;

	// If two entries match, a call has tail-called itself, and the later one returns first. If
	// a call was parked in its second range, the calls that filled its first range are still
	// open when it returns.
	for (int way = 0; way < WAYS && !latest && is_full; way++) {
		parked = first_place(thread, sp, way);
		for (int i = 0; parked && i < PARKED_PROBES; i++, parked++) {
			if (parked->sp == sp && parked->cell == cell &&
			    (!latest || parked->a >= latest->a))
				latest = parked;
			is_full &= parked->sp != 0;
		}
	}
	return latest;
}

// Returns whether both cells belong to the same instrument. @key is 0 if a session began while a
// signal handler had interrupted the thread that parked the call: the call is of the session
// before.
static bool same_instrument(uint64_t key, const struct sosc_cell *cell)
{
	uint64_t index = (key - (uint64_t)sosc_cells) / sizeof(*cell);

	return !key ||
	       sosc_layers[index].instrument == sosc_layers[sosc_cell_index(cell)].instrument;
}

/**
 * Return a place for a call of @cell whose return address lies at @sp: a free one, or the place of
 * a call that can no longer return. Two calls with the same @sp are both alive only if one has
 * tail-called the other (@tail_called), or if they are one call that two instruments see. If all
 * places are taken, use the place of a call whose frame lies below this one, within a stack's
 * reach: such a call was left by longjmp or an exception, or it belongs to a coroutine and loses
 * its place. Return NULL if there is none.
 */
struct sosc_parked *sosc_parked_place(struct sosc_thread *thread, uint64_t sp,
				      const struct sosc_cell *cell, bool tail_called)
{
	struct sosc_parked *parked, *place = NULL, *below = NULL;

	for (int way = 0; way < WAYS && !place; way++) {
		parked = first_place(thread, sp, way);
		for (int i = 0; parked && i < PARKED_PROBES; i++, parked++) {
			if (parked->sp == sp && !tail_called && same_instrument(parked->cell, cell))
				parked->sp = 0;
			if (!parked->sp && !place)
				place = parked;
			if (parked->sp < sp && sp - parked->sp < 1 << 20)
				below = parked;
		}
	}
	if (!place && below) {
		below->sp = 0;
		place = below;
	}
	return place;
}

// Returns NULL if the thread has no table of its own.
static struct sosc_filling *fillings(const struct sosc_thread *thread)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);

	if (!parked || parked == sosc_parked_fallback)
		return NULL;
	return (void *)((uint8_t *)parked + SOSC_PARKED_ROOM);
}

/** Return what was kept of the call of @cell whose return address lies at @sp, or NULL. */
struct sosc_filling *sosc_filling_find(const struct sosc_thread *thread, uint64_t sp, uint64_t cell)
{
	struct sosc_filling *filling = fillings(thread);

	for (int i = 0; filling && i < SOSC_FILLINGS; i++, filling++)
		if (filling->sp == sp && filling->cell == cell)
			return filling;
	return NULL;
}

/**
 * Return a place for what is to be kept of a call of @cell whose return address lies at @sp, or
 * NULL. The caller fills it in and stores `sp` last. If all places are taken, this is the place of
 * the oldest call: calls that old never returned, unless as many signal handlers are on one stack.
 */
struct sosc_filling *sosc_filling_place(const struct sosc_thread *thread, uint64_t sp,
					uint64_t cell)
{
	struct sosc_filling *first = fillings(thread), *place = first;
	uint32_t number = 0;

	if (!first)
		return NULL;
	for (struct sosc_filling *at = first; at < first + SOSC_FILLINGS; at++) {
		if (at->number > number)
			number = at->number;
		if (at->sp == sp && at->cell == cell)
			at->sp = 0;
		if (place->sp && (!at->sp || at->number < place->number))
			place = at;
	}
	place->number = number + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&place->sp, BEING_FILLED_IN, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	place->cell = cell;
	place->count = 0;
	return place;
}

/**
 * Return the thread's buffer for a long read. Return NULL if the buffer is in use, or if the thread
 * has none.
 */
struct sosc_scratch *sosc_scratch_take(const struct sosc_thread *thread)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);
	struct sosc_scratch *scratch =
		(void *)((uint8_t *)parked + SOSC_PARKED_ROOM + SOSC_FILLINGS_ROOM);

	if (!parked || parked == sosc_parked_fallback)
		return NULL;
	return __atomic_exchange_n(&scratch->is_taken, 1, __ATOMIC_ACQUIRE) ? NULL : scratch;
}

void sosc_scratch_give(struct sosc_scratch *scratch)
{
	__atomic_store_n(&scratch->is_taken, 0, __ATOMIC_RELEASE);
}
