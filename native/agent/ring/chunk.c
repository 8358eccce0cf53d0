// SPDX-License-Identifier: Apache-2.0
// Chunks of the ring by their index, and preparing a chunk for its next owner.

#include "ring/chunk.h"
#include "base/clock.h"
#include "base/signals.h"
#include "base/sys.h"
#include "thread/thread.h"

// bytes of a chunk that are cleared at a time while signal handlers may come; a chunk's units are
// 17 times as many
enum { CLEARED = 960 };

static uint64_t populated; // chunks below this index have been brought into memory

// An index of another session leads here: a thread that a signal handler interrupted may continue
// with an index that this ring does not have.
static struct sosc_nothing {
	uint8_t chunk[SOSC_CHUNK_SIZE];
	uint32_t state;
} nothing __attribute__((aligned(SOSC_CHUNK_SIZE)));

/** Another control block: none of its pages is in memory yet. */
void sosc_chunks_forget(void)
{
	populated = 0;
}

uint32_t *sosc_chunk_state_at(uint32_t index)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);

	if (index >= session->chunks)
		return &nothing.state;
	return (uint32_t *)((uint64_t)session->control +
			    session->section[SOSC_SEC_CHUNK_STATES].offset) +
	       index;
}

struct sosc_chunk *sosc_chunk_at(uint32_t index)
{
	const struct sosc_session *session = __atomic_load_n(&sosc_session, __ATOMIC_RELAXED);

	if (index >= session->chunks)
		return (void *)nothing.chunk;
	return (void *)((uint64_t)session->control + session->section[SOSC_SEC_RING].offset +
			(uint64_t)index * SOSC_CHUNK_SIZE);
}

/**
 * Return whether this is still the same process and session. Anything found before may be used only
 * then, and must not be looked up again afterwards.
 */
bool sosc_chunk_is_same(uint32_t process)
{
	bool same;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	same = sosc_process() == process;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return same;
}

uint32_t sosc_chunks_usual(void)
{
	return sosc_session->usual_chunks;
}

// This takes long, and the thread may wait for a processor meanwhile. So the thread's CPU clock is
// used for the cost. Returns the ticks for which the thread was here.
static uint64_t populate(uint32_t index, uint32_t process)
{
	uint64_t start = sosc_ticks(), ran = sosc_clock_ns(CLOCK_THREAD_CPUTIME_ID), ticks, rate;
	// the page faults of sixteen chunks in one call
	uint32_t end = index >= sosc_chunks_usual()	? index + 1 :
		       index + 16 > sosc_chunks_usual() ? sosc_chunks_usual() :
							  index + 16;

	(void)sosc_sys3(SYS_MADVISE, (long)sosc_chunk_at(index),
			(long)(end - index) * SOSC_CHUNK_SIZE, MADV_POPULATE_WRITE);
	populated = end;
	ran = sosc_clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran;
	rate = sosc_clock_rate(sosc_ticks());
	ticks = sosc_ticks_since(start);
	ran = ran * rate >> SOSC_RATE_BITS;
	if (sosc_chunk_is_same(process))
		__atomic_fetch_add(&sosc_control->took_chunks, ran < ticks ? ran : ticks,
				   __ATOMIC_RELAXED);
	return ticks;
}

// @at_once: signals are blocked, so no signal handler can fork meanwhile.
static void clear(uint32_t index, const struct sosc_thread *thread, uint32_t process, bool at_once)
{
	const uint32_t part = at_once ? SOSC_CHUNK_SIZE - SOSC_CHUNK_HEADER : CLEARED;
	struct sosc_chunk *chunk = sosc_chunk_at(index);
	uint32_t tid = thread->tid, pid = thread->pid, borrowed = thread->borrowed;
	uint64_t none = 0, now, number;

	if (chunk->tsc || chunk->seq) { // the chunk has been used before
		// soscope has cleared seq before it freed the chunk. Otherwise seq is cleared here,
		// since soscope would take the old contents for new ones.
		if (chunk->seq && sosc_chunk_is_same(process))
			__atomic_store_n(&chunk->seq, 0, __ATOMIC_RELEASE);
		for (uint32_t at = SOSC_CHUNK_HEADER; at < SOSC_CHUNK_SIZE; at += part)
			if (sosc_chunk_is_same(process))
				memset((uint8_t *)chunk + at, 0, part);
	}
	now = sosc_ticks() | 1; // never 0, which means that the chunk was never used
	if (!sosc_chunk_is_same(process))
		return;
	chunk->tid = tid;
	chunk->pid = pid;
	chunk->flags = borrowed ? SOSC_CHUNK_BORROWED : 0;
	chunk->tsc_full = 0;
	chunk->tsc = now;
	number = __atomic_add_fetch(&sosc_control->ring_seq, 1, __ATOMIC_RELAXED);
	// only once, even if a signal handler forks here: with a second number its units would
	// count as new
	(void)__atomic_compare_exchange_n(&chunk->seq, &none, number, false, __ATOMIC_RELEASE,
					  __ATOMIC_RELAXED);
}

/**
 * Clear a chunk that @thread has taken, and write the thread's ids and a sequence number into it.
 * Return how many ticks were counted as the cost of chunks.
 */
uint64_t sosc_chunk_prepare(uint32_t index, const struct sosc_thread *thread, uint32_t process)
{
	uint64_t before, counted = 0;
	bool are_held;

	if (index >= populated && !sosc_is_sealed(thread))
		counted = populate(index, process);
	are_held = sosc_signals_hold(sosc_is_sealed(thread), &before);
	clear(index, thread, process, are_held);
	if (are_held)
		sosc_signals_release(&before);
	return counted;
}
