// SPDX-License-Identifier: Apache-2.0
// Memory for kept walks. All threads share a pool of chunks: a single thread gets many of them, and
// each of a thousand threads gets a few. A thread returns its chunks when it ends, if the agent
// sees that. Otherwise later threads look for threads that have ended.
//
// A forked child has a pool of its own: a walk that was begun in its parent may go on in the child.

#include "stack/walkcache.h"
#include "base/memory.h"
#include "base/sys.h"
#include "thread/counts.h"
#include "thread/thread.h"

enum {
	CHUNKS = 4096,
	LEAST = 4, // chunks that a thread may have in any case
	SHARE = 64, // beyond that, a thread may have at most one SHAREth of the free chunks
	LOOKS = 8, // number of threads to check for having ended
	LAST = UINT16_MAX, // value of `next` in the last chunk
};

enum { MOST_FRAMES = MEMO_FRAMES, MOST_PAIRS = 72, MOST_WORDS = 144 };

static const struct sosc_memo_need rooms[MEMO_ROOMS] = {
	{6, 8, 0},
	{20, 8, 0},
	{6, 32, 0},
	{20, 32, 64},
	{MOST_PAIRS, 80, MOST_FRAMES},
	{20, MOST_WORDS, MOST_FRAMES},
};

_Static_assert(CHUNKS < LAST && THREAD_COUNT <= UINT16_MAX, "numbers of 16 bits");
#define ROOM(pairs, words, frames)                                            \
	(sizeof(struct sosc_memo) + (pairs) * sizeof(struct sosc_memo_pair) + \
	 (words) * sizeof(struct sosc_memo_word) + (frames) * 8)

_Static_assert(ROOM(MOST_PAIRS, 80, MOST_FRAMES) <= SOSC_PAGE, "a chunk has room for one");
_Static_assert(ROOM(20, MOST_WORDS, MOST_FRAMES) <= SOSC_PAGE, "a chunk has room for one");

struct pool {
	uint32_t process; // see sosc_process
	uint32_t used;
	uint16_t next[CHUNKS]; // next chunk of the same thread, + 1, 0 if the chunk is free
	uint16_t first[THREAD_COUNT]; // first chunk of a thread, + 1, 0 if it has none
	uint8_t chunk[CHUNKS][SOSC_PAGE] __attribute__((aligned(SOSC_PAGE)));
};

static struct pool *pool;

static struct pool *pool_there(void)
{
	struct pool *there = __atomic_load_n(&pool, __ATOMIC_ACQUIRE);

	return there && there->process == sosc_process() ? there : NULL;
}

static struct pool *find_pool(void)
{
	struct pool *there = pool_there(), *mine;

	if (there)
		return there;
	there = __atomic_load_n(&pool, __ATOMIC_ACQUIRE);
	mine = sosc_memory_map(sizeof(*mine));
	if (!mine)
		return NULL;
	mine->process = sosc_process();
	if (__atomic_compare_exchange_n(&pool, &there, mine, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		sosc_memory_keep(mine, sizeof(*mine), &pool);
		return mine;
	}
	(void)sosc_sys3(SYS_MUNMAP, (long)mine, sizeof(*mine), 0);
	return there;
}

// ---- chunks ----------------------------------------------------------------------

// Returns a chunk for a thread that has @count, or NULL if there is none or others need it more.
static uint8_t *take_chunk(struct pool *from, uint32_t count)
{
	static uint32_t hint;
	uint32_t used = __atomic_load_n(&from->used, __ATOMIC_RELAXED), start;

	if (used >= CHUNKS || (count >= LEAST && count >= (CHUNKS - used) / SHARE))
		return NULL;
	start = __atomic_load_n(&hint, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint32_t at = (start + i) % CHUNKS;
		uint16_t none = 0;

		if (__atomic_load_n(&from->next[at], __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&from->next[at], &none, LAST, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		__atomic_fetch_add(&from->used, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&hint, at + 1, __ATOMIC_RELAXED);
		return from->chunk[at];
	}
	return NULL;
}

static uint16_t number_of(const struct pool *of, uint64_t addr) // number of a chunk, + 1
{
	return (uint16_t)((addr - (uint64_t)of->chunk) / SOSC_PAGE + 1);
}

// Returns a chunk and those that follow it to the pool. Free chunks are zeros.
static void give_back(struct pool *to, uint16_t number)
{
	while (number && number != LAST) {
		uint16_t next = to->next[number - 1];

		(void)sosc_sys3(SYS_MADVISE, (long)to->chunk[number - 1], SOSC_PAGE, MADV_DONTNEED);
		__atomic_fetch_sub(&to->used, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&to->next[number - 1], 0, __ATOMIC_RELEASE);
		number = next;
	}
}

// Checks some threads, and takes the chunks of those that have ended. If a thread begins with the
// thread pointer of an ended one, the kernel has put its id into the descriptor before it runs. So
// either the new thread finds no chunks, or this finds the id.
static void look_for_ended(struct pool *in, const struct sosc_thread *thread)
{
	static uint32_t hand;

	if (!sosc_tid_offset)
		return;
	for (uint32_t i = 0, looks = 0; i < THREAD_COUNT && looks < LOOKS; i++) {
		uint32_t at = __atomic_fetch_add(&hand, 1, __ATOMIC_RELAXED) % THREAD_COUNT;
		const struct sosc_thread *place = &sosc_threads[at];
		uint16_t number, none = 0;

		if (!__atomic_load_n(&in->first[at], __ATOMIC_RELAXED) || place == thread)
			continue;
		looks++;
		if (!sosc_thread_has_ended(place, thread->tid))
			continue;
		number = __atomic_exchange_n(&in->first[at], 0, __ATOMIC_SEQ_CST);
		if (!sosc_thread_has_ended(place, thread->tid) &&
		    __atomic_compare_exchange_n(&in->first[at], &none, number, false,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		give_back(in, number);
	}
}

// ---- the memory of one thread -------------------------------------------------------

static void begin(struct sosc_memos *memos, const struct sosc_thread *thread)
{
	memset(memos, 0, sizeof(*memos));
	memos->tid_check = thread->tid_check;
	memos->chunks = 1;
	memos->at = (uint64_t)(memos + 1);
	memos->end = (uint64_t)memos + SOSC_PAGE;
}

/**
 * Return the memos of @thread, the caller. Return NULL if there is no memory for them, or if the
 * thread may make no system call to get some. The memos may be left from an earlier session, or
 * from a thread with the same thread pointer.
 */
struct sosc_memos *sosc_memos_of(const struct sosc_thread *thread)
{
	bool sealed = sosc_is_sealed(thread);
	struct pool *from = sealed ? pool_there() : find_pool();
	uint16_t *first = from ? &from->first[thread - sosc_threads] : NULL, number, rest;
	struct sosc_memos *memos;

	if (!from)
		return NULL;
	number = __atomic_load_n(first, __ATOMIC_SEQ_CST);
	if (number) {
		memos = (void *)from->chunk[number - 1];
		if (memos->tid_check == thread->tid_check)
			return memos;
		if (sealed)
			return NULL;
		rest = __atomic_exchange_n(&from->next[number - 1], LAST, __ATOMIC_RELAXED);
		give_back(from, rest);
		begin(memos, thread);
		return memos;
	}
	if (!sealed)
		look_for_ended(from, thread);
	memos = (void *)take_chunk(from, 0);
	if (!memos)
		return NULL;
	begin(memos, thread);
	number = 0;
	if (__atomic_compare_exchange_n(first, &number, number_of(from, (uint64_t)memos), false,
					__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return memos;
	give_back(from,
		  number_of(from, (uint64_t)memos)); // a signal handler has got memos meanwhile
	return (void *)from->chunk[number - 1];
}

/** @thread, the caller, ends, and makes no more walks. */
void sosc_memos_end(const struct sosc_thread *thread)
{
	struct pool *to = sosc_is_sealed(thread) ? NULL : pool_there();

	if (to)
		give_back(to, __atomic_exchange_n(&to->first[thread - sosc_threads], 0,
						  __ATOMIC_SEQ_CST));
}

// ---- one memo ----------------------------------------------------------------------

static uint64_t words_at(uint32_t kind)
{
	return sizeof(struct sosc_memo) + rooms[kind].pairs * sizeof(struct sosc_memo_pair);
}

static uint64_t frames_at(uint32_t kind)
{
	return words_at(kind) + rooms[kind].words * sizeof(struct sosc_memo_word);
}

/** Return the frames of a memo. */
uint64_t *sosc_memo_frames(struct sosc_memo *memo)
{
	return (uint64_t *)((uint64_t)memo + frames_at(memo->room));
}

static bool is_room(uint32_t kind, struct sosc_memo_need need)
{
	return need.pairs <= rooms[kind].pairs && need.words <= rooms[kind].words &&
	       need.frames <= rooms[kind].frames;
}

bool sosc_memo_has_room(const struct sosc_memo *memo, struct sosc_memo_need need)
{
	return is_room(memo->room, need);
}

static bool has(const struct pool *all, const struct sosc_memos *memos)
{
	return (uint64_t)memos - (uint64_t)all->chunk < sizeof(all->chunk);
}

static struct sosc_memo *new_place(struct sosc_memos *memos, uint32_t kind)
{
	uint64_t size = frames_at(kind) + rooms[kind].frames * 8ull;
	struct sosc_memo *memo = (void *)memos->at;

	if (memos->end - memos->at < size) {
		struct pool *from = pool_there(); // not the pool of a parent
		uint8_t *chunk = from && has(from, memos) ? take_chunk(from, memos->chunks) : NULL;
		uint16_t first;

		if (!chunk)
			return NULL;
		first = number_of(from, (uint64_t)memos);
		from->next[number_of(from, (uint64_t)chunk) - 1] = from->next[first - 1];
		from->next[first - 1] = number_of(from, (uint64_t)chunk);
		memos->chunks++;
		memos->end = (uint64_t)chunk + SOSC_PAGE;
		memo = (void *)chunk;
	}
	memos->at = (uint64_t)memo + size;
	memo->words_at = (uint16_t)words_at(kind);
	memo->room = (uint8_t)kind;
	return memo;
}

// Takes the place of another memo, which is lost.
static struct sosc_memo *steal(struct sosc_memos *memos, uint32_t place, struct sosc_memo_need need)
{
	for (uint32_t i = 0; i < 1 << MEMO_BITS; i++) {
		uint32_t at = memos->next++ % (1 << MEMO_BITS);
		struct sosc_memo *memo = memos->of[at];

		if (at == place || !memo || !is_room(memo->room, need))
			continue;
		memos->of[at] = NULL;
		return memo;
	}
	return NULL;
}

// Copies the contents of @from to @memo.
static void copy(struct sosc_memo *memo, struct sosc_memo *from)
{
	memcpy(memo->pair, from->pair, from->pairs * sizeof(*memo->pair));
	memcpy(sosc_memo_words(memo), sosc_memo_words(from),
	       from->words * sizeof(struct sosc_memo_word));
	memcpy(sosc_memo_frames(memo), sosc_memo_frames(from), from->count * 8ull);
	memo->fp_mask = from->fp_mask;
	memo->high = from->high;
	memo->ret = from->ret;
	memo->sp = from->sp;
	memo->fp = from->fp;
	memo->pairs = from->pairs;
	memo->words = from->words;
	memo->count = from->count;
	memo->is_cut = from->is_cut;
}

/**
 * Return a memo at @place with enough room. It keeps its contents, but is no longer valid for
 * comparison. Return NULL if there is no memory.
 */
struct sosc_memo *sosc_memo_make(struct sosc_memos *memos, uint32_t place,
				 struct sosc_memo_need need)
{
	struct sosc_memo *before = memos->of[place], *memo;
	uint32_t kind = 0;

	if (before)
		before->key = 0;
	if (before && is_room(before->room, need))
		return before;
	while (kind < MEMO_ROOMS && !is_room(kind, need))
		kind++;
	if (kind == MEMO_ROOMS)
		return NULL;
	memo = memos->free[kind];
	if (memo)
		memos->free[kind] = (void *)memo->ret;
	else
		memo = new_place(memos, kind);
	if (!memo)
		memo = steal(memos, place, need);
	if (!memo)
		return NULL;
	memo->key = 0;
	memo->pairs = memo->words = memo->count = 0;
	if (before)
		copy(memo, before);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memos->of[place] = memo;
	if (!before)
		return memo;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	before->ret = (uint64_t)memos->free[before->room];
	memos->free[before->room] = before;
	return memo;
}
