// SPDX-License-Identifier: Apache-2.0
// Parked calls: a table for each thread, found by the place of the return address.

#include "thread/park.h"
#include "base/instrument.h"
#include "base/state.h"
#include "base/sys.h"
#include "thread/thread.h"

enum { BEING_FILLED_IN = 1 }; // as a filling's sp: a signal handler takes another

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

/** Take the table of parked calls away from @thread, which makes no hooked call any more. */
void sosc_parked_take(struct sosc_thread *thread)
{
	struct sosc_parked *parked = thread->parked;

	thread->parked = NULL;
	if (parked && parked != sosc_parked_fallback)
		(void)sosc_sys3(SYS_MUNMAP, (long)parked, SOSC_PARKED_SIZE, 0);
}

// Where a call may lie: by its own window, or where it would if the window above went on. A
// recursion of small frames that goes from one window to the next meets itself by the first way,
// and goes on by the second.
enum { WAYS = 2 };

// NULL in a child that a handler has forked since @thread was found.
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

	// Two of the same are one that has tail-called itself: the later returns first. The calls
	// that a second way went round are still open when this one returns.
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

// NULL where a thread has no memory of its own.
static struct sosc_filling *fillings(const struct sosc_thread *thread)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);

	if (!parked || parked == sosc_parked_fallback)
		return NULL;
	return (void *)((uint8_t *)parked + SOSC_PARKED_ROOM);
}

/** What was kept of the call of @cell whose return address lies at @sp; NULL: nothing. */
struct sosc_filling *sosc_filling_find(const struct sosc_thread *thread, uint64_t sp, uint64_t cell)
{
	struct sosc_filling *filling = fillings(thread);

	for (int i = 0; filling && i < SOSC_FILLINGS; i++, filling++)
		if (filling->sp == sp && filling->cell == cell)
			return filling;
	return NULL;
}

/**
 * A place for what is to be kept of a call of @cell whose return address lies at @sp, to be filled
 * in, `sp` last; NULL: there is none. Where all are taken it is the oldest one's: such calls have
 * been left, unless a stack has as many signal handlers on it.
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

/** The thread's room for a long read; NULL where it is taken, or where there is none. */
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
