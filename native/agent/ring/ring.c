// SPDX-License-Identifier: Apache-2.0
// Chunks of the ring: taking the next one, and what happens when there is none.
//
// A chunk belongs to one thread at a time. The fast path (arch_*.S) takes units
// from it by an unlocked add; when that passes CHUNK_LIMIT it comes here. A
// signal handler may interrupt anything here and come here itself: it always
// finishes first, so what it changed is looked at again. It may also fork: the
// child finds its threads wiped and must leave alone what its parent had taken.

#include "ring/ring.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/sys.h"
#include "ring/chunk.h"
#include "ring/delay.h"
#include "thread/thread.h"
#include "thread/work.h"

enum {
	NOWHERE = 1 << 23, // positions without a chunk lie below
	WAIT_NS = 100000000, // of one wait for a chunk
	GONE_NS = 1000000000, // without a heartbeat: soscope is gone
	AHEAD = 4, // chunks that may be the next one
};

#define FULL (1ull << 32)

struct getting { // a chunk
	enum sosc_drop why; // there is none
	uint64_t waited; // ticks that are counted already, waits among them
};

// FULL and what ring_drained was as there was no free chunk: there is none until that has moved.
// To look through thousands of chunks at each event would take far longer than the event.
static uint64_t full_at;

/**
 * Another control block: none of its pages is there yet. Its chunks are counted from
 * another number on, so that nobody takes one of them for one of the last ring's.
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

// A forked child takes none here: it cannot tell its own from its parent's.
static bool take(uint32_t index, enum sosc_chunk_state from, uint32_t process)
{
	uint32_t *state = sosc_chunk_state_at(index),
		 word = __atomic_load_n(state, __ATOMIC_RELAXED);

	return (word & SOSC_CHUNK_STATE) == from && sosc_chunk_is_same(process) &&
	       sosc_chunk_change(state, word, SOSC_CHUNK_OWNED);
}

// The lowest free chunk: those used last are still in somebody's cache. A thread
// may keep its chunk for ever. Where other threads hold all chunks, none of them
// needs to come back before we have gone on: then it is a spare one.
static uint32_t take_free(uint32_t process)
{
	uint32_t usual = sosc_chunks_usual(), end = usual, seen = 0;
	uint32_t drained = __atomic_load_n(&sosc_control->ring_drained, __ATOMIC_ACQUIRE);
	const uint32_t *words = sosc_chunk_state_at(0); // of an earlier ring, too: `take` says so

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

// Whether no chunk is free or full. Threads that have ended hold some until soscope has
// noticed that: it says when those that live hold all.
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

// How many calls a chunk tells of; an exit's entry is as old or older: it has been overwritten, too.
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

// Chunks are overwritten in turn, so the next full one is the oldest: to compare their numbers would
// bring thousands of headers into the cache. One that its thread has held for longer waits until
// it is its turn again.
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

// Until soscope has freed a chunk and wakes us, or a signal comes, or a while is
// over; how many nanoseconds it has been. soscope wakes as many threads as it frees
// chunks: a thousand that look by themselves every few milliseconds would take the
// processors that it needs.
static uint64_t wait_a_little(uint32_t drained)
{
	return sosc_wait(&sosc_control->ring_drained, drained, WAIT_NS);
}

// A wait of @took ns ends now. Returns how many ns passed until soscope freed chunks: after that the
// thread waited for a processor, as it does for whatever else runs on the machine.
static uint64_t until_drained(uint64_t took)
{
	uint64_t drained = __atomic_load_n(&sosc_control->drained_ns, __ATOMIC_RELAXED);
	uint64_t behind = sosc_clock_ns(CLOCK_MONOTONIC_RAW) - drained;

	return behind < took ? took - behind : took;
}

// soscope is gone when its heartbeat has not moved for a second. Nobody waits for
// it then, and it is back as soon as the heartbeat moves: it may have been stopped.
static bool reader_is_gone(uint64_t heartbeat)
{
	return __atomic_load_n(&sosc_control->reader_gone, __ATOMIC_RELAXED) == heartbeat + 1;
}

// Puts down that @thread has waited for @ns. A signal handler may have interrupted that, and waited
// itself: then the handler has put its time down, and both times are the same.
static void count_wait(struct sosc_thread *thread, uint64_t ns)
{
	uint8_t ready = THREAD_READY; // 0 in a child that a handler forks here

	if (__atomic_compare_exchange_n(&thread->ready, &ready, THREAD_READY | THREAD_WAITED, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_fetch_add(&sosc_control->waited_room, ns, __ATOMIC_RELAXED);
}

// Waits until soscope has freed a chunk, or is gone, or says that none will be free.
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
		count_wait(thread, until_drained(took));
		__atomic_fetch_sub(&control->ring_waiters, 1, __ATOMIC_SEQ_CST);
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

// Who is forked in the middle of this does what its parent does, and one of them
// late: then the chunk may be somebody else's.
static void change(uint32_t index, enum sosc_chunk_state to, uint32_t process)
{
	struct sosc_chunk *chunk = sosc_chunk_at(index);
	uint32_t *state = sosc_chunk_state_at(index); // ours, if we still are who we were
	uint32_t word = __atomic_load_n(state, __ATOMIC_RELAXED);
	uint64_t now = sosc_ticks();

	if ((word & SOSC_CHUNK_STATE) != SOSC_CHUNK_OWNED || !sosc_chunk_is_same(process))
		return;
	if (to == SOSC_CHUNK_FULL)
		chunk->tsc_full = now; // too early, if late: then in vain
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

// Whether a unit below @end has been taken and is not finished: then this is a
// signal handler, or another context, that has interrupted its writer.
static bool has_hole(uint32_t index, uint64_t end)
{
	const uint8_t *chunk = (const uint8_t *)sosc_chunk_at(index);
	uint64_t at = SOSC_CHUNK_HEADER;

	// four at once: every chunk is looked through, and hardly any has one
	for (; at + 4 * SOSC_UNIT <= end; at += 4 * SOSC_UNIT)
		if (!commit_of(chunk, at) | !commit_of(chunk, at + SOSC_UNIT) |
		    !commit_of(chunk, at + 2 * SOSC_UNIT) | !commit_of(chunk, at + 3 * SOSC_UNIT))
			return true;
	for (; at < end; at += SOSC_UNIT)
		if (!commit_of(chunk, at))
			return true;
	return false;
}

// A chunk with a hole stays ours until its writer has gone on. One that was left
// by siglongjmp in the middle of a record is kept in vain: so few are kept, and
// the oldest goes first. A signal handler may do the same in between: each word
// changes hands at once.
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

// pos may be changed by a signal handler at any instruction, by nobody else.
static bool swap_pos(struct sosc_thread *thread, uint64_t from, uint64_t to)
{
	return sosc_local_swap(&thread->pos, from, to);
}

// A position without room, another one each time.
static uint64_t nowhere(struct sosc_thread *thread)
{
	return SOSC_NO_ROOM +
	       (sosc_local_add_short(&thread->turns, SOSC_CHUNK_SIZE) & (NOWHERE - 1));
}

// The index of @thread's chunk; @word is what stands there.
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

// Takes from @thread its chunk @old, which stands there as @word; @pos was read before it.
// False: a signal handler has done so, or has taken it again.
static bool leave(struct sosc_thread *thread, uint64_t pos, uint32_t old, uint32_t word)
{
	if (!swap_chunk(thread, word, SOSC_NONE))
		return false;
	if (swap_pos(thread, pos, nowhere(thread)) || !has_room(thread->pos) ||
	    thread->pos - (uint64_t)sosc_chunk_at(old) >= SOSC_CHUNK_SIZE)
		return true;
	return !swap_chunk(thread, SOSC_NONE, word);
}

// Takes from @thread the chunk that it has: its index, SOSC_NONE if there is none. The
// thread has no room afterwards, unless a signal handler has got some meanwhile.
static uint32_t leave_chunk(struct sosc_thread *thread)
{
	for (;;) {
		uint64_t pos = __atomic_load_n(&thread->pos, __ATOMIC_ACQUIRE);
		uint32_t word, old = chunk_of(thread, &word);

		if (old == SOSC_NONE || leave(thread, pos, old, word))
			return old;
	}
}

// Gives back a chunk of thread @tid, which is no more, in process @pid. soscope may have
// noticed and given it to somebody else: then it has another name in it, or is not in use.
static void release(uint32_t tid, uint32_t pid, uint32_t index)
{
	uint32_t *states = sosc_section(SOSC_SEC_CHUNK_STATES), state;
	struct sosc_chunk *chunk = (void *)((uint8_t *)sosc_section(SOSC_SEC_RING) +
					    (uint64_t)index * SOSC_CHUNK_SIZE);

	if (index >= sosc_session->chunks) // none, or of an earlier session
		return;
	state = __atomic_load_n(&states[index], __ATOMIC_ACQUIRE);
	if ((state & SOSC_CHUNK_STATE) != SOSC_CHUNK_OWNED ||
	    !__atomic_load_n(&chunk->seq, __ATOMIC_ACQUIRE) || chunk->tid != tid ||
	    chunk->pid != pid)
		return;
	chunk->tsc_full = sosc_ticks(); // if it is somebody else's by now: too early, and in vain
	(void)sosc_chunk_change(&states[index], state, SOSC_CHUNK_FULL);
}

/**
 * @thread goes on as another one: give back the chunk that it has. @has_ended: its writer is no more,
 * so all others go that it holds. A signal handler may have come here meanwhile, and have named the
 * thread anew: then a chunk is the handler's, and goes as well.
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

// Gives @thread a chunk with room, or notices that this has become a forked child;
// of the old one, units up to @end were taken. False: none; @getting says why. A signal
// handler that comes here meanwhile gives it a chunk, too: each step is done only
// if nobody else has. A position with room always lies in the thread's chunk.
static bool refill(struct sosc_thread *thread, uint64_t end, struct getting *getting)
{
	uint32_t process = sosc_process();

	for (;;) {
		// in this order: what pos says of another chunk than this is outdated,
		// and then swap_pos fails
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
		if (old != SOSC_NONE) { // just taken, by who was interrupted before the end
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
			continue; // it has waited, and nothing is recorded any more
		if (index == SOSC_NONE)
			return false;
		getting->waited += sosc_chunk_prepare(index, thread, process);
		if (!sosc_chunk_is_same(process))
			return true;
		if (!swap_chunk(thread, SOSC_NONE, index + 1)) {
			// a signal handler has got one meanwhile, or this is a child. Its number
			// was given out, so the reader sees it
			change(index, SOSC_CHUNK_FULL, process);
			continue;
		}
		(void)swap_pos(thread, gone, (uint64_t)sosc_chunk_at(index) + SOSC_CHUNK_HEADER);
	}
}

// A thread of @process has been away since @start, and waited meanwhile as @getting says.
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
 * @bytes of units in @thread's chunk, whatever it takes; their address, or 0:
 * the record is lost and has been counted as @loss.
 */
uint64_t sosc_ring_reserve(struct sosc_thread *thread, uint32_t bytes, enum sosc_loss loss)
{
	struct getting getting = {.why = SOSC_DROP_FULL};
	uint32_t process = sosc_process();
	uint64_t start = 0;

	for (;;) {
		uint64_t pos, end = CHUNK_LIMIT;

		if (!sosc_session->chunks) // begun in an earlier session
			return 0;
		if (!thread->ready) // a child, forked while its parent was on its way here
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
 * How far behind @thread's chunk the one lies that it will likely have next, in bytes; 0: nobody
 * knows.
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
 * @unit, that @thread has taken, or 0: its chunk is not the thread's any more. In a child that a
 * signal handler has forked since then it is the parent's, who may have made another of it.
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
 * A unit that an exit has taken, and did not need: it could not be given back, as a signal
 * handler has taken more behind it.
 */
uint64_t sosc_ring_unneeded(struct sosc_site *site, struct sosc_thread *thread, uint64_t unit)
{
	if (sosc_ring_is_ours(site, thread, unit))
		__atomic_store_n((uint32_t *)unit, (uint32_t)SOSC_UNIT_NOTHING << 28,
				 __ATOMIC_RELEASE);
	return 0;
}
