// SPDX-License-Identifier: Apache-2.0
// Chunks of the ring: taking the next chunk, and what happens if there is none.
//
// A chunk belongs to one thread at a time. The fast path (arch_*.S) takes units from it by an
// unlocked add. When the position passes CHUNK_LIMIT, the fast path calls this file. A signal
// handler may interrupt anything here and come here itself. It always finishes first, so the
// interrupted code checks again what the handler may have changed. A handler may also fork: the
// child finds the state of its threads wiped and must not touch the chunks of its parent.

#include "ring/ring.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/sys.h"
#include "ring/chunk.h"
#include "ring/delay.h"
#include "thread/thread.h"
#include "thread/work.h"

enum {
	NOWHERE = 1 << 23, // positions without a chunk are below this
	WAIT_NS = 100000000, // longest single wait for a chunk
	GONE_NS = 1000000000, // soscope counts as gone after this time without a heartbeat
	AHEAD = 4, // number of chunks considered as the likely next one
};

#define FULL (1ull << 32)

struct getting { // an attempt to get a chunk
	enum sosc_drop why; // reason if there is none
	uint64_t waited; // ticks, waits included, that are counted elsewhere already
};

// FULL and the value of ring_drained when no chunk was free. No chunk is free until ring_drained
// moves. Searching thousands of chunks at each event would take far longer than the event.
static uint64_t full_at;

/**
 * Another control block: none of its pages is in memory yet. The words of its chunks start counting
 * from a different number, so that no thread takes one of its chunks for a chunk of the last ring.
 */
void sosc_ring_again(void)
{
	uint32_t *state = sosc_section(SOSC_SEC_CHUNK_STATES);

	sosc_chunks_forget();
	full_at = 0;
	for (uint32_t i = 0; i < sosc_session->chunks; i++)
		state[i] = (uint32_t)sosc_inside.sessions * 0x9e3779b1u &
			   ~(uint32_t)SOSC_CHUNK_STATE;
}

static uint32_t word_of(uint32_t index)
{
	return __atomic_load_n(sosc_chunk_state_at(index), __ATOMIC_RELAXED);
}

static enum sosc_chunk_state state_of(uint32_t index)
{
	return word_of(index) & SOSC_CHUNK_STATE;
}

// Takes a chunk in state @from. A forked child takes none here, because it cannot tell its own
// chunks from its parent's.
static bool take(uint32_t index, enum sosc_chunk_state from, uint32_t process)
{
	uint32_t *state = sosc_chunk_state_at(index),
		 word = __atomic_load_n(state, __ATOMIC_RELAXED);

	return (word & SOSC_CHUNK_STATE) == from && sosc_chunk_is_same(process) &&
	       sosc_chunk_change(state, word, SOSC_CHUNK_OWNED);
}

// Takes the lowest free chunk: chunks that were used last are still in some cache. A thread may
// keep its chunk for ever. If other threads hold all chunks, none of them may come back before this
// thread goes on, so it takes a spare chunk.
static uint32_t take_free(uint32_t process)
{
	uint32_t usual = sosc_chunks_usual(), end = usual, seen = 0;
	uint32_t drained = __atomic_load_n(&sosc_control->ring_drained, __ATOMIC_ACQUIRE);
	// may belong to an earlier ring; `take` checks that
	const uint32_t *words = sosc_chunk_state_at(0);

	if (__atomic_load_n(&full_at, __ATOMIC_RELAXED) == (FULL | drained))
		return SOSC_NONE;

	for (uint32_t i = 0, held = 0; i < end; i++) {
		enum sosc_chunk_state state = __atomic_load_n(&words[i], __ATOMIC_RELAXED) &
					      SOSC_CHUNK_STATE;

		if (state == SOSC_CHUNK_FREE && take(i, SOSC_CHUNK_FREE, process))
			return i;
		seen += state == SOSC_CHUNK_FREE;
		held += state == SOSC_CHUNK_OWNED;
		if (i + 1 == usual && held == usual)
			end = sosc_session->chunks;
	}
	if (!seen)
		__atomic_store_n(&full_at, FULL | drained, __ATOMIC_RELAXED);
	return SOSC_NONE;
}

// Returns whether no chunk is free or full. Threads that have ended hold chunks until soscope
// notices. soscope tells in `starved` when living threads hold all.
static bool all_held(void)
{
	for (uint32_t i = 0; i < sosc_session->chunks; i++)
		if (state_of(i) != SOSC_CHUNK_OWNED)
			return false;
	return true;
}

static void raise_to(uint64_t *word, uint64_t value)
{
	uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (now < value && !__atomic_compare_exchange_n(word, &now, value, false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

// Returns the number of calls in a chunk. Exits are not counted: their entries are as old or older,
// and so were overwritten, too.
static uint32_t entries_of(uint32_t index)
{
	const uint32_t *unit =
		(const uint32_t *)((uint8_t *)sosc_chunk_at(index) + SOSC_CHUNK_HEADER);
	uint32_t entries = 0;

	for (uint32_t i = SOSC_CHUNK_HEADER; i < SOSC_CHUNK_SIZE; i += SOSC_UNIT, unit += 8) {
		uint32_t type = *unit >> 28;

		entries += type == SOSC_UNIT_ENTRY || type == SOSC_UNIT_ENTRY_ONLY ||
			   type == SOSC_UNIT_OPEN || type == SOSC_UNIT_WHOLE ||
			   type == SOSC_UNIT_REPORTED;
	}
	return entries;
}

// Takes the next full chunk. Chunks are overwritten in turn, so that is the oldest one. Comparing
// sequence numbers would bring thousands of headers into the cache. A chunk that its thread held
// for longer waits until its turn comes again.
static uint32_t take_oldest(uint32_t process)
{
	struct sosc_control *control = sosc_control;
	uint32_t chunks = sosc_session->chunks;
	uint64_t turn = __atomic_load_n(&control->turn, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < chunks && sosc_process() == process; i++) {
		uint32_t index = (uint32_t)((turn + i) % chunks);

		if (state_of(index) != SOSC_CHUNK_FULL || !take(index, SOSC_CHUNK_FULL, process))
			continue;
		if (!sosc_chunk_is_same(process))
			break;
		__atomic_store_n(&control->turn, index + 1ull, __ATOMIC_RELAXED);
		__atomic_fetch_add(&control->dropped[SOSC_DROP_OVERWRITTEN], entries_of(index),
				   __ATOMIC_RELAXED);
		raise_to(&control->overwritten, sosc_chunk_at(index)->tsc_full);
		return index;
	}
	return SOSC_NONE;
}

// Waits until soscope frees a chunk and wakes this thread, a signal comes, or WAIT_NS have passed.
// Returns how many ns it has waited. soscope wakes as many threads as it frees chunks. If a
// thousand threads looked by themselves every few milliseconds, they would take the processors that
// soscope needs.
static uint64_t wait_a_little(uint32_t drained)
{
	return sosc_wait(&sosc_control->ring_drained, drained, WAIT_NS);
}

// A wait of @took ns ends now with a chunk. Returns how many ns passed until soscope freed chunks.
// After that the thread waited for a processor, which has nothing to do with the ring.
static uint64_t until_drained(uint64_t took)
{
	uint64_t drained = __atomic_load_n(&sosc_control->drained_ns, __ATOMIC_RELAXED);
	uint64_t behind = sosc_clock_ns(CLOCK_MONOTONIC_RAW) - drained;

	return behind < took ? took - behind : took;
}

// Returns whether soscope is gone: its heartbeat has not moved for a second. Then threads do not
// wait for it. It counts as back as soon as the heartbeat moves, because it may only have been
// stopped.
static bool reader_is_gone(uint64_t heartbeat)
{
	return __atomic_load_n(&sosc_control->reader_gone, __ATOMIC_RELAXED) == heartbeat + 1;
}

// Records that @thread has waited for @ns. A signal handler may have interrupted the wait and
// waited itself. The handler has recorded its time then, and both times are the same.
static void count_wait(struct sosc_thread *thread, uint64_t ns)
{
	uint8_t ready = THREAD_READY; // 0 in a child that a signal handler forks here

	if (__atomic_compare_exchange_n(&thread->ready, &ready, THREAD_READY | THREAD_WAITED, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_fetch_add(&sosc_control->waited_room, ns, __ATOMIC_RELAXED);
}

// Waits until soscope has freed a chunk, is gone, or reports that no chunk will become free.
static uint32_t wait_free(struct sosc_thread *thread, uint32_t process, enum sosc_drop *why)
{
	struct sosc_control *control = sosc_control;
	uint64_t seen = __atomic_load_n(&control->heartbeat, __ATOMIC_ACQUIRE), waited = 0, took;

	while (control->command != SOSC_COMMAND_STOP && sosc_process() == process) {
		uint32_t drained = __atomic_load_n(&control->ring_drained, __ATOMIC_ACQUIRE);
		uint64_t heartbeat = __atomic_load_n(&control->heartbeat, __ATOMIC_ACQUIRE);
		uint32_t index = take_free(process);

		if (index != SOSC_NONE)
			return index;
		if (reader_is_gone(heartbeat))
			break;
		if (__atomic_load_n(&control->starved, __ATOMIC_RELAXED) && all_held()) {
			*why = SOSC_DROP_THREADS;
			break;
		}
		if (heartbeat != seen) {
			seen = heartbeat;
			waited = 0;
		} else if (waited > GONE_NS) {
			__atomic_store_n(&control->reader_gone, heartbeat + 1, __ATOMIC_RELAXED);
			break;
		}
		__atomic_fetch_add(&control->ring_waiters, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_and(&thread->ready, (uint8_t)~THREAD_WAITED, __ATOMIC_RELAXED);
		took = wait_a_little(drained);
		waited += took;
		if (sosc_process() != process)
			break;
		index = take_free(process);
		// chunks that others have taken did not end this wait
		count_wait(thread, index == SOSC_NONE ? took : until_drained(took));
		__atomic_fetch_sub(&control->ring_waiters, 1, __ATOMIC_SEQ_CST);
		if (index != SOSC_NONE)
			return index;
	}
	return SOSC_NONE;
}

static uint32_t next_chunk(struct sosc_thread *thread, struct getting *getting, uint32_t process)
{
	uint32_t index = take_free(process);
	uint64_t start;

	getting->why = SOSC_DROP_FULL;
	if (index != SOSC_NONE)
		return index;
	switch (sosc_control->when_full) {
	case SOSC_FULL_BLOCK:
		getting->why = SOSC_DROP_READER_GONE;
		start = sosc_ticks();
		index = wait_free(thread, process, &getting->why);
		getting->waited += sosc_ticks_since(start);
		break;
	case SOSC_FULL_OVERWRITE:
		index = take_oldest(process);
		break;
	case SOSC_FULL_STOP:
		sosc_control->command = SOSC_COMMAND_STOP;
		break;
	default:
		break;
	}
	return index;
}

static bool has_room(uint64_t pos)
{
	uint64_t in_chunk = pos & CHUNK_MASK;

	// a position without a chunk stays low, however much is added to it
	return pos >= 2ull * NOWHERE && in_chunk >= SOSC_CHUNK_HEADER && in_chunk < CHUNK_LIMIT;
}

// Changes a chunk's state. A child forked in the middle of this does the same as its parent, and
// one of the two does it late, when the chunk may already belong to another thread.
static void change(uint32_t index, enum sosc_chunk_state to, uint32_t process)
{
	struct sosc_chunk *chunk = sosc_chunk_at(index);
	// this thread's chunk, if the process is still the same
	uint32_t *state = sosc_chunk_state_at(index);
	uint32_t word = __atomic_load_n(state, __ATOMIC_RELAXED);
	uint64_t now = sosc_ticks();

	if ((word & SOSC_CHUNK_STATE) != SOSC_CHUNK_OWNED || !sosc_chunk_is_same(process))
		return;
	if (to == SOSC_CHUNK_FULL)
		// if the thread is late, the time is wrong, and the state below is not changed
		chunk->tsc_full = now;
	(void)sosc_chunk_change(state, word, to);
}

static void give_back(uint32_t index, uint32_t process)
{
	change(index, SOSC_CHUNK_FULL, process);
}

static uint32_t commit_of(const uint8_t *chunk, uint64_t at)
{
	return *(const volatile uint32_t *)(chunk + at);
}

// Returns whether a unit below @end was taken and is not finished. Then this thread is in a signal
// handler, or in another context, that has interrupted the writer of that unit.
static bool has_hole(uint32_t index, uint64_t end)
{
	const uint8_t *chunk = (const uint8_t *)sosc_chunk_at(index);
	uint64_t at = SOSC_CHUNK_HEADER;

	// four at a time, because every chunk is searched and hardly any has a hole
	for (; at + 4 * SOSC_UNIT <= end; at += 4 * SOSC_UNIT)
		if (!commit_of(chunk, at) | !commit_of(chunk, at + SOSC_UNIT) |
		    !commit_of(chunk, at + 2 * SOSC_UNIT) | !commit_of(chunk, at + 3 * SOSC_UNIT))
			return true;
	for (; at < end; at += SOSC_UNIT)
		if (!commit_of(chunk, at))
			return true;
	return false;
}

// Gives back chunk @index. If the chunk has a hole, the thread keeps it until the interrupted
// writer has gone on. If siglongjmp has left a writer in the middle of a record, its chunk is kept
// in vain, so only a few chunks are kept, and the oldest is given up first. A signal handler may do
// the same meanwhile, so each word is changed by compare-and-swap.
static void retire(struct sosc_thread *thread, uint32_t index, uint64_t end, uint32_t process)
{
	uint64_t word = (uint64_t)index << 32 | end;

	for (uint32_t i = 0; i < THREAD_HELD; i++) {
		uint64_t held = thread->held[i];

		if (held && !has_hole((uint32_t)(held >> 32), held & UINT32_MAX) &&
		    __atomic_compare_exchange_n(&thread->held[i], &held, 0, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			give_back((uint32_t)(held >> 32), process);
	}
	while (index != SOSC_NONE && has_hole(index, end)) {
		uint32_t place = 0;
		uint64_t oldest = thread->held[0];

		for (uint32_t i = 1; i < THREAD_HELD && oldest; i++) {
			uint64_t held = thread->held[i];

			if (!held || sosc_chunk_at((uint32_t)(held >> 32))->seq <
					     sosc_chunk_at((uint32_t)(oldest >> 32))->seq) {
				oldest = held;
				place = i;
			}
		}
		if (!__atomic_compare_exchange_n(&thread->held[place], &oldest, word, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		if (oldest)
			give_back((uint32_t)(oldest >> 32), process);
		return;
	}
	if (index != SOSC_NONE)
		give_back(index, process);
}

// pos may be changed by a signal handler at any instruction, but not by other threads.
static bool swap_pos(struct sosc_thread *thread, uint64_t from, uint64_t to)
{
	return sosc_local_swap(&thread->pos, from, to);
}

// Returns a position without a chunk, a different one each time.
static uint64_t nowhere(struct sosc_thread *thread)
{
	return SOSC_NO_ROOM +
	       (sosc_local_add_short(&thread->turns, SOSC_CHUNK_SIZE) & (NOWHERE - 1));
}

// Returns the index of @thread's chunk, and in @word the word that holds it.
static uint32_t chunk_of(const struct sosc_thread *thread, uint32_t *word)
{
	*word = __atomic_load_n(&thread->chunk, __ATOMIC_RELAXED);
	return *word && *word != SOSC_NONE ? *word - 1 : SOSC_NONE;
}

static bool swap_chunk(struct sosc_thread *thread, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&thread->chunk, &from, to, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

// Takes the chunk @old away from @thread, whose word is @word. @pos was read before @word. Returns
// false if a signal handler has done that already, or has given the chunk back to the thread.
static bool leave(struct sosc_thread *thread, uint64_t pos, uint32_t old, uint32_t word)
{
	if (!swap_chunk(thread, word, SOSC_NONE))
		return false;
	if (swap_pos(thread, pos, nowhere(thread)) || !has_room(thread->pos) ||
	    thread->pos - (uint64_t)sosc_chunk_at(old) >= SOSC_CHUNK_SIZE)
		return true;
	return !swap_chunk(thread, SOSC_NONE, word);
}

// Takes away the chunk that @thread has. Returns its index, SOSC_NONE if there is none. Afterwards
// the thread has no room, unless a signal handler has got a chunk meanwhile.
static uint32_t leave_chunk(struct sosc_thread *thread)
{
	for (;;) {
		uint64_t pos = __atomic_load_n(&thread->pos, __ATOMIC_ACQUIRE);
		uint32_t word, old = chunk_of(thread, &word);

		if (old == SOSC_NONE || leave(thread, pos, old, word))
			return old;
	}
}

// Gives back a chunk of thread @tid of process @pid, which has ended. soscope may have noticed that
// and given the chunk to another thread. Then the chunk has another thread's id in it, or is not in
// use.
static void release(uint32_t tid, uint32_t pid, uint32_t index)
{
	uint32_t *states = sosc_section(SOSC_SEC_CHUNK_STATES), state;
	struct sosc_chunk *chunk = (void *)((uint8_t *)sosc_section(SOSC_SEC_RING) +
					    (uint64_t)index * SOSC_CHUNK_SIZE);

	if (index >= sosc_session->chunks) // no chunk, or a chunk of an earlier session
		return;
	state = __atomic_load_n(&states[index], __ATOMIC_ACQUIRE);
	if ((state & SOSC_CHUNK_STATE) != SOSC_CHUNK_OWNED ||
	    !__atomic_load_n(&chunk->seq, __ATOMIC_ACQUIRE) || chunk->tid != tid ||
	    chunk->pid != pid)
		return;
	// if the chunk has a new owner by now, the time is wrong, and the state below is not
	// changed
	chunk->tsc_full = sosc_ticks();
	(void)sosc_chunk_change(&states[index], state, SOSC_CHUNK_FULL);
}

/**
 * @thread continues as another thread: give back its chunk. @has_ended: the writer has ended, so
 * give back all other chunks that it holds as well. A signal handler may have come here meanwhile
 * and renamed the thread. Then a chunk belongs to the handler, and is given back as well.
 */
void sosc_ring_part(struct sosc_thread *thread, bool has_ended)
{
	uint32_t tid = thread->tid, pid = thread->pid, chunk = leave_chunk(thread);

	release(tid, pid, chunk);
	if (!has_ended)
		return;
	release(thread->tid, thread->pid, chunk);
	for (uint32_t i = 0; i < THREAD_HELD; i++) {
		uint64_t held = __atomic_exchange_n(&thread->held[i], 0, __ATOMIC_RELAXED);

		if (!held)
			continue;
		release(tid, pid, (uint32_t)(held >> 32));
		release(thread->tid, thread->pid, (uint32_t)(held >> 32));
	}
}

// Gives @thread a chunk with room, or notices that this process is a forked child now. Of the old
// chunk, the units up to @end were taken. Returns false if there is no chunk, with the reason in
// @getting. A signal handler that comes here meanwhile gives the thread a chunk, too, so each step
// is done only if no handler has done it. A position with room always lies in the thread's chunk.
static bool refill(struct sosc_thread *thread, uint64_t end, struct getting *getting)
{
	uint32_t process = sosc_process();

	for (;;) {
		// in this order: if pos belongs to another chunk than this one, it is outdated, and
		// then swap_pos fails
		uint64_t pos = __atomic_load_n(&thread->pos, __ATOMIC_ACQUIRE), gone;
		uint32_t word, old = chunk_of(thread, &word), index;

		if (!thread->ready || has_room(pos))
			return true;
		if (old != SOSC_NONE && pos - (uint64_t)sosc_chunk_at(old) < 2 * SOSC_CHUNK_SIZE) {
			if (!leave(thread, pos, old, word))
				continue;
			if (sosc_process() != process)
				return true;
			retire(thread, old, end, process);
			end = CHUNK_LIMIT;
			continue;
		}
		// just taken, by code that was interrupted before it stored pos
		if (old != SOSC_NONE) {
			(void)swap_pos(thread, pos,
				       (uint64_t)sosc_chunk_at(old) + SOSC_CHUNK_HEADER);
			continue;
		}
		gone = nowhere(thread);
		if (!swap_pos(thread, pos, gone))
			continue;
		if (sosc_process() != process)
			return true;
		retire(thread, SOSC_NONE, end, process);
		if (thread->quiet)
			return false;
		if (sosc_control->command == SOSC_COMMAND_STOP) {
			if (!sosc_chunk_is_same(process))
				return true;
			sosc_control->state = SOSC_STATE_STOPPED;
			sosc_quiet = true;
			return false;
		}
		index = next_chunk(thread, getting, process);
		if (sosc_process() != process)
			return true;
		if (index == SOSC_NONE && getting->why == SOSC_DROP_READER_GONE &&
		    sosc_control->command == SOSC_COMMAND_STOP)
			continue; // the thread has waited, and nothing is recorded any more
		if (index == SOSC_NONE)
			return false;
		getting->waited += sosc_chunk_prepare(index, thread, process);
		if (!sosc_chunk_is_same(process))
			return true;
		if (!swap_chunk(thread, SOSC_NONE, index + 1)) {
			// a signal handler has got a chunk meanwhile, or this is a child. The chunk
			// has its sequence number already, so the reader sees it
			change(index, SOSC_CHUNK_FULL, process);
			continue;
		}
		(void)swap_pos(thread, gone, (uint64_t)sosc_chunk_at(index) + SOSC_CHUNK_HEADER);
	}
}

// Writes a unit for the time that a thread of @process has spent here since @start. @getting has
// the time that it waited meanwhile.
static void write_overhead(struct sosc_thread *thread, uint64_t start,
			   const struct getting *getting, uint32_t process)
{
	uint64_t pos = sosc_local_add(&thread->pos, SOSC_UNIT), ticks = sosc_ticks_since(start);
	struct sosc_overhead *unit = (void *)pos;

	if (sosc_process() == process && ticks > getting->waited) {
		thread->accounted += getting->waited;
		sosc_cost_account(thread, &sosc_control->took_chunks, ticks - getting->waited);
	}
	if (!has_room(pos))
		return;
	unit->tsc = start;
	sosc_delay_ours(thread, start);
	unit->ticks = sosc_ticks_since(start);
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_OVERHEAD << 28, __ATOMIC_RELEASE);
}

/**
 * Take @bytes of units in @thread's chunk, and get a new chunk if that is necessary. Return the
 * address of the units. Return 0 if the record is lost; it has been counted as @loss then.
 */
uint64_t sosc_ring_reserve(struct sosc_thread *thread, uint32_t bytes, enum sosc_loss loss)
{
	struct getting getting = {.why = SOSC_DROP_FULL};
	uint32_t process = sosc_process();
	uint64_t start = 0;

	for (;;) {
		uint64_t pos, end = CHUNK_LIMIT;

		if (!sosc_session->chunks) // the call began in an earlier session
			return 0;
		if (!thread->ready) // this is a child, forked while its parent was on its way here
			thread = sosc_thread_self();
		if (!thread)
			return 0;
		pos = __atomic_load_n(&thread->pos, __ATOMIC_RELAXED);
		if (has_room(pos)) {
			if ((pos & CHUNK_MASK) + bytes <= SOSC_CHUNK_SIZE) {
				if (swap_pos(thread, pos, pos + bytes))
					return pos;
				continue;
			}
			// a large record: leave the rest of the chunk empty
			end = pos & CHUNK_MASK;
			if (!swap_pos(thread, pos, (pos & ~(uint64_t)CHUNK_MASK) | CHUNK_LIMIT))
				continue;
		}
		if (!start)
			start = sosc_ticks();
		if (!refill(thread, end, &getting))
			break;
		write_overhead(thread, start, &getting, process);
	}
	if (thread->quiet)
		return 0;
	if (sosc_quiet)
		return 0;
	if (loss == SOSC_LOSS_ENTRY)
		__atomic_fetch_add(&sosc_control->dropped[getting.why], 1, __ATOMIC_RELAXED);
	else if (loss == SOSC_LOSS_EXIT)
		__atomic_fetch_add(&sosc_control->dropped_exits, 1, __ATOMIC_RELAXED);
	return 0;
}

/**
 * Return how many bytes after @thread's chunk the chunk begins that it will likely get next; 0:
 * unknown.
 */
uint32_t sosc_ring_ahead(const struct sosc_thread *thread)
{
	uint32_t word, index = chunk_of(thread, &word);

	for (uint32_t i = 1; index != SOSC_NONE && i <= AHEAD && index + i < sosc_chunks_usual();
	     i++)
		if (state_of(index + i) == SOSC_CHUNK_FREE)
			return i * SOSC_CHUNK_SIZE;
	return 0;
}

/**
 * Return @unit, which @thread has taken. Return 0 if its chunk no longer belongs to the thread. In
 * a child that a signal handler has forked since, the unit belongs to the parent, which may have
 * turned it into another one.
 */
uint64_t sosc_ring_is_ours(const void *unused, struct sosc_thread *thread, uint64_t unit)
{
	uint64_t chunk = unit & ~(uint64_t)CHUNK_MASK;
	uint32_t word, index = chunk_of(thread, &word);
	bool ours = index != SOSC_NONE && (uint64_t)sosc_chunk_at(index) == chunk;

	(void)unused;
	for (uint32_t i = 0; i < THREAD_HELD; i++) {
		uint64_t held = thread->held[i];

		ours |= held && (uint64_t)sosc_chunk_at((uint32_t)(held >> 32)) == chunk;
	}
	return ours ? unit : 0;
}

/**
 * Mark a unit that an exit has taken and did not need. It could not be given back, because a signal
 * handler has taken more units after it.
 */
uint64_t sosc_ring_unneeded(struct sosc_site *site, struct sosc_thread *thread, uint64_t unit)
{
	if (sosc_ring_is_ours(site, thread, unit))
		__atomic_store_n((uint32_t *)unit, (uint32_t)SOSC_UNIT_NOTHING << 28,
				 __ATOMIC_RELEASE);
	return 0;
}
