// SPDX-License-Identifier: Apache-2.0
// Count arrays. Each thread counts in its own array, without a lock. When a thread has ended, its
// array goes on with all its counts to a thread that begins.

#include "thread/counts.h"
#include "base/instrument.h"
#include "base/session.h"
#include "base/state.h"
#include "base/sys.h"
#include "thread/park.h"
#include "thread/thread.h"

enum {
	FEW = 32, // number of arrays to inspect before a new one is mapped
	EFAULT = 14,
};

/** Return whether this session counts by call site. */
bool sosc_counts_callers(void)
{
	const struct sosc_plan *plan = sosc_plan_in(
		sosc_session,
		sosc_holds(SOSC_INSTRUMENT_COUNT) ? SOSC_INSTRUMENT_COUNT : SOSC_INSTRUMENT_STATS);

	return plan && plan->flags & SOSC_PLAN_CALLERS;
}

static uint64_t cell_size(void)
{
	return sosc_holds(SOSC_INSTRUMENT_COUNT) ? 8 : sizeof(struct sosc_stats);
}

// The addresses of count arrays that were mapped later for single threads, for each place of a
// control block and for each size of an array. An address is reused and never unmapped, because a
// signal handler may have interrupted a call of an earlier session.
enum { OF_COUNT = 1, OF_CALLERS = 2, SIZES = 4 };
static uint64_t later_arrays[SOSC_BLOCKS][SIZES][SOSC_LATER_ARRAYS], (*later)[SOSC_LATER_ARRAYS];
static uint64_t later_size; // size of one of them
static uint32_t later_count; // number of addresses in use
static uint32_t arrays_ready; // number of arrays that are mapped together with the block
static uint64_t latest_array; // address of the array mapped last, with its index in the low bits

_Static_assert((int)SOSC_LATER_ARRAYS <= (int)SOSC_PAGE, "latest_array holds an index");

static uint32_t kind_of_array(void)
{
	return (sosc_holds(SOSC_INSTRUMENT_COUNT) ? OF_COUNT : 0) |
	       (sosc_counts_callers() ? OF_CALLERS : 0);
}

static uint64_t size_of(uint32_t kind)
{
	uint64_t cells = SOSC_MAX_SLOTS + (kind & OF_CALLERS ? SOSC_MAX_CALL_SITES : 0);

	return cells * (kind & OF_COUNT ? 8 : sizeof(struct sosc_stats));
}

static uint64_t array_size(void)
{
	return size_of(kind_of_array());
}

/**
 * A session begins, in the control block with the index @block. The last of its @control_size bytes
 * are count arrays, as many as a few threads need. Address space for a thousand arrays would be
 * gigabytes. A limit may forbid that, and mlockall(2) would bring all of it into memory.
 */
void sosc_counts_start(uint64_t control_size, uint32_t block)
{
	const struct sosc_range *range = &sosc_session->section[SOSC_SEC_COUNTS];
	uint64_t size = array_size();

	for (uint32_t i = 0; later && i < SOSC_LATER_ARRAYS; i++)
		if ((*later)[i]) // usually the soscope of that session has done so
			(void)sosc_sys3(SYS_MADVISE, (long)(*later)[i], (long)later_size,
					MADV_REMOVE);
	if (!range->size)
		return;
	later = &later_arrays[block][kind_of_array()];
	later_size = size;
	arrays_ready = (uint32_t)((control_size - range->offset) / size);
	latest_array = (uint64_t)sosc_section(SOSC_SEC_COUNTS) + (arrays_ready - 1) * size +
		       (arrays_ready - 1);
}

// Maps array @index, starting from the array mapped last: mremap(2) with old size 0 makes a second
// mapping of a shared file from there on. Returns the array's address, 0 if it could not be mapped,
// 1 if it lies before the array mapped last.
static uint64_t map_array(uint32_t index)
{
	uint64_t latest = __atomic_load_n(&latest_array, __ATOMIC_RELAXED), size = array_size();
	uint64_t last = latest & (SOSC_PAGE - 1), at = latest - last, map, skip, place;
	long moved;

	if (index >= SOSC_LATER_ARRAYS)
		return 0;
	if (index <= last)
		return 1;
	skip = (index - last - 1) * size + SOSC_PAGE;
	map = (uint64_t)sosc_sys6(SYS_MREMAP, (long)(at + size - SOSC_PAGE), 0, (long)(skip + size),
				  MREMAP_MAYMOVE, 0, 0);
	if (sosc_mmap_failed((void *)map))
		return 0;
	(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)skip, 0);
	map += skip;
	place = (*later)[index];
	if (place) {
		moved = sosc_sys6(SYS_MREMAP, (long)map, (long)size, (long)size,
				  MREMAP_MAYMOVE | MREMAP_FIXED, (long)place, 0);
		map = sosc_mmap_failed((void *)moved) ? map : place;
	}
	if (!place)
		__atomic_fetch_add(&later_count, 1, __ATOMIC_RELAXED);
	(*later)[index] = map;
	(void)__atomic_compare_exchange_n(&latest_array, &latest, map + index, false,
					  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return map;
}

/** This is a child that is not followed. See sosc_session_leave. */
void sosc_counts_leave(void)
{
	uint64_t *array = &later_arrays[0][0][0];

	// most processes have none, and the table is half a megabyte
	for (uint32_t i = 0, left = later_count; left; i++)
		if (array[i]) {
			uint32_t kind = i / SOSC_LATER_ARRAYS % SIZES;

			sosc_session_replace(array[i], size_of(kind), 0);
			left--;
		}
}

/** The session is over: unmap the arrays of single threads. See sosc_session_rest. */
void sosc_counts_rest(void)
{
	uint64_t *array = &later_arrays[0][0][0];

	for (uint32_t i = 0, left = later_count; left; i++)
		if (array[i]) {
			uint32_t kind = i / SOSC_LATER_ARRAYS % SIZES;

			(void)sosc_sys3(SYS_MUNMAP, (long)array[i], (long)size_of(kind), 0);
			array[i] = 0;
			left--;
		}
	later = NULL;
	later_count = 0;
	latest_array = 0;
}

static uint64_t *array_of(struct sosc_thread *thread)
{
	return sosc_holds(SOSC_INSTRUMENT_COUNT) ? &thread->counts : &thread->stats;
}

// Reads the word at @addr into @ret. Returns -EFAULT if nothing is mapped there.
static long peek(uint32_t pid, uint64_t addr, uint64_t size, uint64_t *ret)
{
	struct {
		uint64_t base, size;
	} local = {(uint64_t)ret, size}, remote = {addr, size};

	*ret = 0;
	return sosc_sys6(SYS_PROCESS_VM_READV, pid, (long)&local, 1, (long)&remote, 1, 0);
}

/**
 * Return whether no thread has the thread pointer @tp: its descriptor is unmapped, or belongs to no
 * thread. The kernel, or musl, clears the id in the descriptor. In glibc, joining the thread stores
 * -1 there.
 */
bool sosc_thread_pointer_is_free(uint64_t tp, uint32_t pid)
{
	uint64_t word;
	long done = peek(pid, tp + (uint64_t)sosc_tid_offset, 4, &word);
	if (done == 4 && (int32_t)word > 0)
		// the first word of a descriptor in use points to itself
		return peek(pid, tp, 8, &word) == 8 && word != tp;
	return done == 4 || done == -EFAULT;
}

/** Return whether the thread that owns @place has ended. */
bool sosc_thread_has_ended(const struct sosc_thread *place, uint32_t pid)
{
	uint64_t tp = __atomic_load_n(&place->key, __ATOMIC_RELAXED);

	return tp && place->tid_check && sosc_thread_pointer_is_free(tp, pid);
}

// Gives the array back to a thread that has begun meanwhile. If the thread has got another array by
// now, it keeps that one, and the array that we took stays unused.
static void put_back(struct sosc_thread *place, uint64_t tp, uint64_t array, void *parked)
{
	uint64_t none = 0;
	struct sosc_parked *nothing = NULL;

	// this is a forked child, and the place is wiped
	if (__atomic_load_n(&place->key, __ATOMIC_RELAXED) != tp)
		return;
	if (array)
		(void)__atomic_compare_exchange_n(array_of(place), &none, array, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (parked)
		(void)__atomic_compare_exchange_n(&place->parked, &nothing, parked, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Takes the array of a thread that has ended. Looks at most at @looks arrays. If a thread begins
// with the thread pointer of an ended one, the kernel has put its id into the descriptor before it
// runs. So either the new thread finds no array, or we find its id. Another thread that tries to
// take the array finds none.
static uint64_t take_over(struct sosc_thread *thread, uint32_t looks)
{
	static uint32_t next;
	uint32_t arrays = __atomic_load_n(&sosc_owners->count, __ATOMIC_RELAXED), pid;

	if (!sosc_tid_offset || sosc_is_sealed(thread))
		return 0;
	if (arrays > SOSC_LATER_ARRAYS)
		arrays = SOSC_LATER_ARRAYS;
	pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	for (uint32_t i = 0; i < looks && i < arrays; i++) {
		uint16_t *owner =
			&sosc_owners->of[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % arrays];
		uint32_t index = __atomic_load_n(owner, __ATOMIC_RELAXED);
		struct sosc_thread *place = &sosc_threads[index - 1];
		struct sosc_parked *parked = NULL, *none = NULL;
		uint64_t array, tp;

		if (!index || place == thread || !*array_of(place) ||
		    !sosc_thread_has_ended(place, pid))
			continue;
		tp = place->key;
		__atomic_store_n(&place->ready, 0, __ATOMIC_RELAXED);
		array = __atomic_exchange_n(array_of(place), 0, __ATOMIC_SEQ_CST);
		if (!array)
			continue;
		if (place->parked != sosc_parked_fallback)
			parked = __atomic_exchange_n(&place->parked, NULL, __ATOMIC_SEQ_CST);
		if (!sosc_thread_has_ended(place, pid)) {
			put_back(place, tp, array, parked);
			continue;
		}
		__atomic_store_n(owner, (uint16_t)(thread - sosc_threads + 1), __ATOMIC_RELAXED);
		if (!parked)
			return array;
		// calls that the ended thread has left open
		(void)sosc_sys3(SYS_MADVISE, (long)parked, SOSC_PARKED_SIZE, MADV_DONTNEED);
		if (!__atomic_compare_exchange_n(&thread->parked, &none, parked, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			(void)sosc_sys3(SYS_MUNMAP, (long)parked, SOSC_PARKED_SIZE, 0);
		return array;
	}
	return 0;
}

// Takes an array that no thread has had. @ready: only if it is mapped already.
static uint64_t take_new(struct sosc_thread *thread, bool ready)
{
	struct sosc_control *control = sosc_control;
	uint32_t end = ready ? arrays_ready : sosc_session->count_arrays, index, at;
	uint64_t array, size = array_size();

	do {
		if (__atomic_load_n(&control->counts_used, __ATOMIC_RELAXED) + 1 >= end)
			return 0;
		index = __atomic_add_fetch(&control->counts_used, 1, __ATOMIC_RELAXED);
		if (index >= sosc_session->count_arrays)
			return 0;
		if (index < arrays_ready)
			array = (uint64_t)sosc_section(SOSC_SEC_COUNTS) + index * size;
		else
			array = sosc_is_sealed(thread) ? 0 : map_array(index);
	} while (array == 1);
	if (!array)
		return 0;
	at = __atomic_fetch_add(&sosc_owners->count, 1, __ATOMIC_RELAXED);
	if (at < SOSC_LATER_ARRAYS)
		__atomic_store_n(&sosc_owners->of[at], (uint16_t)(thread - sosc_threads + 1),
				 __ATOMIC_RELAXED);
	// biased so that the scaled address of a struct sosc_cell indexes the array
	return array - (uint64_t)sosc_cells / sizeof(struct sosc_cell) * cell_size();
}

/**
 * Return the array that is shared by threads without one of their own, one cell for each slot.
 * Return NULL if the session has no counts of @kind. A thread that a signal handler interrupted may
 * continue in another session. Its counts then go to the session that this function finds.
 */
void *sosc_counts_shared(enum sosc_instrument_kind kind)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);

	return sosc_plan_in(session, kind) ?
		       (uint8_t *)session->control + session->section[SOSC_SEC_COUNTS].offset :
		       NULL;
}

/** Give @thread an array if it has none. Without its own, a thread shares array 0 with others. */
void sosc_counts_give(struct sosc_thread *thread)
{
	uint32_t process = sosc_process();
	uint64_t *place = array_of(thread), array, none = 0;

	if (!sosc_session->section[SOSC_SEC_COUNTS].size || *place)
		return;
	array = take_new(thread, true);
	if (!array)
		array = take_over(thread, FEW);
	if (!array)
		array = take_new(thread, false);
	if (!array)
		array = take_over(thread, UINT32_MAX);
	if (!array || !__atomic_compare_exchange_n(place, &none, array, false, __ATOMIC_RELAXED,
						   __ATOMIC_RELAXED))
		return; // a signal handler has got one meanwhile
	// a signal handler has forked meanwhile, and the array belongs to the parent; or
	// another session has begun
	if (sosc_process() != process)
		(void)__atomic_compare_exchange_n(place, &array, 0, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED);
}
