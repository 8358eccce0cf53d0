// SPDX-License-Identifier: Apache-2.0
// Threads, found by their thread pointer: no thread-local storage, no lock.
//
// The table is wiped in a forked child (MADV_WIPEONFORK), so a child finds
// nothing of its parent's; a vfork child shares memory and goes on as its
// parent. A thread that reuses a dead one's stack has its thread pointer, but
// another thread id in the C library's descriptor; that word's place is found
// at start.

#include "agent.h"
#include "sys.h"

struct sosc_thread *sosc_threads;
int64_t sosc_tid_offset;
bool sosc_quiet;

static uint32_t *alive; // a word that a forked child finds zero
static uint32_t generation; // what *alive holds once it has noticed
static struct sosc_parked parked_fallback[PARKED_COUNT + PARKED_PROBES];

static inline uint64_t thread_pointer(void)
{
	uint64_t tp;

	__asm__("mov %%fs:0, %0" : "=r"(tp));
	return tp;
}

static inline uint32_t tid_check(void)
{
	uint32_t value;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(value) : "r"(sosc_tid_offset));
	return value;
}

// The C library keeps the thread id in its thread descriptor (glibc: 0x2d0,
// musl: 0x30 in struct pthread). Find the word; without it only the thread
// pointer tells threads apart.
static void find_tid_offset(uint32_t tid)
{
	const uint32_t *descriptor = (const void *)thread_pointer();

	sosc_tid_offset = 0;
	for (uint32_t i = 4; i < 0x400 / 4; i++)
		if (descriptor[i] == tid) {
			sosc_tid_offset = i * 4;
			return;
		}
}

int sosc_threads_init(void)
{
	uint64_t size = (uint64_t)THREAD_COUNT << THREAD_SHIFT;
	void *map = sosc_mmap(NULL, size + SOSC_PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sosc_mmap_failed(map))
		return (int)(intptr_t)map;
	(void)sosc_sys3(SYS_MADVISE, (long)map, (long)(size + SOSC_PAGE), MADV_WIPEONFORK);
	sosc_threads = map;
	alive = (void *)((uint8_t *)map + size);
	*alive = ++generation;
	find_tid_offset((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0));
	return 0;
}

/** Another session, with everything stopped: nobody has a place in the old ring. */
void sosc_threads_again(void)
{
	const uint64_t size = (PARKED_COUNT + PARKED_PROBES) * sizeof(struct sosc_parked);

	for (uint32_t i = 0; i < THREAD_COUNT; i++) {
		struct sosc_thread *thread = &sosc_threads[i];
		struct sosc_parked *parked = thread->parked;

		if (!thread->key)
			continue;
		memset(thread, 0, sizeof(*thread));
		if (!parked || parked == parked_fallback)
			continue;
		(void)sosc_sys3(SYS_MADVISE, (long)parked, (long)size, MADV_DONTNEED);
		thread->parked = parked;
	}
	memset(parked_fallback, 0, sizeof(parked_fallback));
	*alive = ++generation;
	sosc_quiet = false;
	find_tid_offset((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0));
}

/**
 * A number that changes when this is no longer the process that it was: a signal
 * handler may fork in the middle of anything, and the child goes on there, with
 * everything of its threads wiped.
 */
uint32_t sosc_process(void)
{
	return __atomic_load_n(alive, __ATOMIC_RELAXED);
}

static void give_counts(struct sosc_thread *thread)
{
	struct sosc_control *control = sosc_control;
	const struct sosc_range *range = &control->section[SOSC_SEC_COUNTS];
	uint64_t cell = control->mode == SOSC_MODE_COUNT ? 8 : sizeof(struct sosc_stats);
	uint64_t array = (uint64_t)sosc_section(SOSC_SEC_COUNTS);
	uint32_t index;

	if (control->mode == SOSC_MODE_TRACE || !range->size)
		return;
	index = __atomic_add_fetch(&control->counts_used, 1, __ATOMIC_RELAXED);
	if (index >= control->count_arrays) {
		thread->counts = 0; // array 0 is everybody's
		return;
	}
	array += index * cell * SOSC_MAX_SLOTS;
	thread->counts_index = index;
	// so that the address of a struct sosc_cell, scaled, indexes the array
	thread->counts = array - (uint64_t)sosc_cells / sizeof(struct sosc_cell) * cell;
}

static void give_parked(struct sosc_thread *thread)
{
	void *map;

	if (thread->parked && thread->parked != parked_fallback)
		return; // of an earlier session
	thread->parked = parked_fallback;
	if (sosc_control->flags & (SOSC_FLAG_ENTRY_ONLY | SOSC_FLAG_NO_SYSCALL) ||
	    sosc_control->mode == SOSC_MODE_COUNT)
		return;
	map = sosc_mmap(NULL, (PARKED_COUNT + PARKED_PROBES) * sizeof(struct sosc_parked),
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!sosc_mmap_failed(map))
		thread->parked = map;
}

// Gives back a chunk of a thread that is no more. soscope may have noticed and
// given it to somebody else: then it has another name in it, or is not in use.
static void release(const struct sosc_thread *dead, uint32_t index)
{
	uint32_t *states = sosc_section(SOSC_SEC_CHUNK_STATES);
	uint32_t state = __atomic_load_n(&states[index], __ATOMIC_ACQUIRE);
	const struct sosc_chunk *chunk = (const void *)((uint8_t *)sosc_section(SOSC_SEC_RING) +
							(uint64_t)index * SOSC_CHUNK_SIZE);

	if ((state & SOSC_CHUNK_STATE) == SOSC_CHUNK_OWNED &&
	    __atomic_load_n(&chunk->seq, __ATOMIC_ACQUIRE) && chunk->tid == dead->tid &&
	    chunk->pid == dead->pid)
		(void)sosc_chunk_change(&states[index], state, SOSC_CHUNK_FULL);
}

// Another thread than the one that had this place: same thread pointer.
static void rename_thread(struct sosc_thread *thread)
{
	uint32_t chunk = __atomic_exchange_n(&thread->chunk, SOSC_NONE, __ATOMIC_RELAXED);

	thread->pos = SOSC_NO_ROOM;
	for (uint32_t i = 0; i < THREAD_HELD; i++)
		if (thread->held[i]) { // its writer is no more
			release(thread, (uint32_t)(thread->held[i] >> 32));
			thread->held[i] = 0;
		}
	if (chunk != SOSC_NONE)
		release(thread, chunk);
	if (sosc_control->flags & SOSC_FLAG_NO_SYSCALL || sosc_control->mode == SOSC_MODE_COUNT) {
		thread->tid = 0; // nobody asks
	} else {
		thread->tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
		thread->pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	}
	thread->tid_check = tid_check();
}

/**
 * vfork has returned, in the @child or, after that has ended or executed a
 * program, in the parent. Both have the same memory, so the same thread.
 */
void sosc_thread_vforked(struct sosc_thread *thread, bool child)
{
	uint32_t chunk;

	if (sosc_control->flags & SOSC_FLAG_NO_SYSCALL)
		return;
	chunk = __atomic_exchange_n(&thread->chunk, SOSC_NONE, __ATOMIC_RELAXED);
	thread->pos = SOSC_NO_ROOM;
	if (chunk != SOSC_NONE)
		release(thread, chunk);
	thread->tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	thread->pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	thread->borrowed = child;
	thread->quiet = child && !(sosc_control->flags & SOSC_FLAG_FOLLOW);
}

static struct sosc_thread *find(uint64_t tp)
{
	uint32_t at = tp >> 12 & (THREAD_COUNT - 1);

	for (uint32_t probe = 0; probe < 64; probe++) {
		struct sosc_thread *thread = &sosc_threads[(at + probe) & (THREAD_COUNT - 1)];
		uint64_t key = __atomic_load_n(&thread->key, __ATOMIC_ACQUIRE);

		if (!key && __atomic_compare_exchange_n(&thread->key, &key, tp, false,
							__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			key = tp;
		if (key == tp)
			return thread;
	}
	return NULL;
}

static struct sosc_thread *self(void)
{
	struct sosc_thread *thread = find(thread_pointer());

	if (!thread)
		return NULL;
	if (!thread->ready) {
		// before glibc 2.34 the first thread's id is not there yet at start
		if (!sosc_tid_offset && !(sosc_control->flags & SOSC_FLAG_NO_SYSCALL))
			find_tid_offset((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0));
		// A signal handler in this window finds the place half made and
		// makes it again: at worst a count array more is used.
		thread->chunk = SOSC_NONE;
		rename_thread(thread);
		give_counts(thread);
		give_parked(thread);
		__atomic_store_n(&thread->ready, 1, __ATOMIC_RELEASE);
	} else if (thread->tid_check != tid_check()) {
		rename_thread(thread);
	}
	return thread;
}

/**
 * This thread's state, made on its first call; NULL in a child that is not
 * followed, and where the table is full.
 */
struct sosc_thread *sosc_thread_self(void)
{
	for (;;) {
		uint32_t process = sosc_process();
		struct sosc_thread *thread;

		if (!process) { // a forked child
			*alive = ++generation;
			if (!(sosc_control->flags & SOSC_FLAG_FOLLOW))
				sosc_quiet = true;
			continue;
		}
		if (sosc_quiet)
			return NULL;
		thread = self();
		if (process == sosc_process())
			return thread;
		if (thread && !(sosc_control->flags & SOSC_FLAG_FOLLOW)) {
			// made by a child that has not yet noticed that it is one
			thread->ready = 0;
			thread->key = 0;
		}
	}
}

// In a child that is not followed, and when the recording has ended: this slot
// costs one jump from now on.
static void mute(struct sosc_cell *cell)
{
	__atomic_store_n(&cell->handler, (uint64_t)sosc_h_jump, __ATOMIC_RELAXED);
}

struct sosc_thread *sosc_thread_slow(struct sosc_cell *cell)
{
	struct sosc_thread *thread = sosc_thread_self();

	if (thread)
		return thread;
	if (sosc_quiet)
		mute(cell);
	else if (sosc_control->mode == SOSC_MODE_TRACE)
		__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_THREADS], 1, __ATOMIC_RELAXED);
	return NULL;
}

struct sosc_thread *sosc_thread_slow_exit(struct sosc_site *site)
{
	struct sosc_thread *thread = sosc_thread_self();

	(void)site;
	if (!thread && !sosc_quiet)
		__atomic_fetch_add(&sosc_control->dropped_exits, 1, __ATOMIC_RELAXED);
	return thread;
}

// ---- parked calls ----------------------------------------------------------

// NULL in a child that a handler has forked since @thread was found.
static struct sosc_parked *first_place(struct sosc_thread *thread, uint64_t sp)
{
	struct sosc_parked *parked = __atomic_load_n(&thread->parked, __ATOMIC_RELAXED);

	return parked ? parked + (sp >> 4 & (PARKED_COUNT - 1)) : NULL;
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

/**
 * A place for a call whose return address lies at @sp: a free one, or that of a
 * call that can no longer return. Calls at the same address are alive only
 * where one has tail-called the other (@tail_called); calls whose frame lies
 * below ours, within a stack's reach, have been left by longjmp or an exception.
 * NULL when all neighbours are alive.
 */
struct sosc_parked *sosc_parked_place(struct sosc_thread *thread, uint64_t sp, bool tail_called)
{
	struct sosc_parked *parked = first_place(thread, sp);
	struct sosc_parked *place = NULL;

	if (!parked)
		return NULL;
	for (int i = 0; i < PARKED_PROBES; i++, parked++) {
		bool stale = parked->sp < sp && sp - parked->sp < 1 << 20;

		if (parked->sp == sp)
			stale = !tail_called;
		if (stale)
			parked->sp = 0;
		if (!parked->sp && !place)
			place = parked;
	}
	return place;
}
