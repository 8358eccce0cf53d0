// SPDX-License-Identifier: Apache-2.0
// Threads, found by their thread pointer, without thread-local storage and without locks.
//
// The table is wiped in a forked child (MADV_WIPEONFORK), so a child finds nothing of its parent's.
// A vfork child shares memory and continues as its parent. A thread that reuses the stack of an
// ended one has the same thread pointer, but another thread id in the C library's descriptor. The
// offset of that id is found at the start.

#include "thread/thread.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/memory.h"
#include "base/session.h"
#include "base/sys.h"
#include "thread/counts.h"
#include "thread/park.h"

enum { PROBES = 64 }; // number of places where a thread may be in the table

struct sosc_thread *sosc_threads;
int64_t sosc_tid_offset;
bool sosc_quiet;

struct sosc_owners *sosc_owners;

const uint32_t *sosc_alive;
uint64_t *sosc_gate;
uint32_t sosc_process_id, sosc_parent_id;

static uint32_t *alive; // the same word as sosc_alive, writable
static uint32_t generation; // value of *alive after the process has been noticed
static uint64_t forked_tp, forked_sp; // the forking thread, and the end of its stack at the fork
static bool is_child; // the control block was inherited from a parent

// Returns whether children are recorded as this process is. soscope may clear the flag later if it
// finds that it cannot follow children. If another process sets the flag, the agent does not
// believe it.
static bool is_followed(void)
{
	return sosc_session->flags & sosc_control->flags & SOSC_FLAG_FOLLOW;
}

// This process is a child that is not followed: drop the control block and the counts.
static void leave_session(void)
{
	sosc_session_leave();
	sosc_counts_leave();
}

static inline uint32_t tid_check(void)
{
	return sosc_thread_word(sosc_tid_offset);
}

// Finds the offset of the thread id in the C library's thread descriptor: as @told by soscope, else
// one of the known offsets, if this thread's id is there. Other words of the descriptor may happen
// to equal an id: glibc's flag for several threads is 1, and so is the id of a container's first
// thread. Without an offset only the thread pointer distinguishes threads.
static void find_tid_offset(int64_t told)
{
	static const uint16_t known[] = SOSC_TID_OFFSETS;
	uint32_t tid;

	sosc_tid_offset = told;
	if (told)
		return;
	tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	for (uint32_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (*(const uint32_t *)(sosc_thread_pointer() + known[i]) == tid) {
			sosc_tid_offset = known[i];
			return;
		}
}

int sosc_threads_init(int64_t tid_offset)
{
	uint64_t size = (uint64_t)THREAD_COUNT << THREAD_SHIFT;
	uint64_t all = size + SOSC_PAGE + sizeof(*sosc_owners);
	void *map = sosc_mmap(NULL, all, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sosc_mmap_failed(map))
		return (int)(intptr_t)map;
	(void)sosc_sys3(SYS_MADVISE, (long)map, (long)all, MADV_WIPEONFORK);
	sosc_threads = map;
	sosc_alive = alive = (void *)((uint8_t *)map + size);
	sosc_owners = (void *)((uint8_t *)map + size + SOSC_PAGE);
	sosc_gate = (void *)(alive + 2);
	*alive = ++generation;
	sosc_process_id = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	find_tid_offset(tid_offset);
	return 0;
}

/** Another session begins, with all threads stopped: no thread has a place in the old ring. */
void sosc_threads_again(int64_t tid_offset)
{
	for (uint32_t i = 0; i < THREAD_COUNT; i++) {
		struct sosc_thread *thread = &sosc_threads[i];
		struct sosc_parked *parked = thread->parked;
		uint32_t turns = thread->turns;

		if (!thread->key)
			continue;
		memset(thread, 0, sizeof(*thread));
		// so that an interrupted thread does not mistake a new position for its own
		thread->turns = turns;
		if (!parked || parked == sosc_parked_fallback)
			continue;
		(void)sosc_sys3(SYS_MADVISE, (long)parked, SOSC_PARKED_SIZE, MADV_DONTNEED);
		thread->parked = parked;
	}
	sosc_memory_clear(sosc_parked_fallback, sizeof(sosc_parked_fallback));
	memset(sosc_owners, 0, sizeof(*sosc_owners));
	forked_sp = 0;
	is_child = false;
	sosc_process_id = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	*alive = ++generation;
	sosc_quiet = false;
	find_tid_offset(tid_offset);
}

/** The session is over, see sosc_session_rest: forget all threads, and record nothing. */
void sosc_threads_rest(void)
{
	sosc_quiet = true;
	for (uint32_t i = 0; i < THREAD_COUNT; i++)
		if (sosc_threads[i].key)
			sosc_parked_take(&sosc_threads[i]);
	sosc_memory_clear(sosc_threads, (uint64_t)THREAD_COUNT << THREAD_SHIFT);
	memset(sosc_owners, 0, sizeof(*sosc_owners));
	sosc_memory_clear(sosc_parked_fallback, sizeof(sosc_parked_fallback));
}

// Gets the ids of the thread and its process. If system calls may be forbidden, the thread id comes
// from the C library, and a forked child has one thread, whose id is the process id.
static void identify(struct sosc_thread *thread)
{
	static uint32_t known_pid, known_generation;

	thread->asked = 0; // `asked` was about another thread's waits
	if (!(sosc_needs & SOSC_NEEDS_IDS))
		return; // no instrument needs ids
	if (sosc_is_sealed(thread)) {
		thread->tid = sosc_tid_offset ? tid_check() : 0;
		thread->pid = known_generation == sosc_process() ? known_pid : thread->tid;
	} else {
		thread->tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
		thread->pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	}
	if (thread->borrowed)
		return;
	known_pid = thread->pid;
	known_generation = sosc_process();
}

// The place's owner is another thread now, with the same thread pointer. A signal handler that
// comes here meanwhile does all of this: then the chunk belongs to the handler, and is given back
// as well.
static void rename_thread(struct sosc_thread *thread)
{
	sosc_instruments_part(thread, true);
	identify(thread);
	thread->tid_check = tid_check();
}

/**
 * vfork has returned: in the @child, or, after the child has ended or executed a program, in the
 * parent. Both have the same memory, and so the same struct sosc_thread.
 */
void sosc_thread_vforked(struct sosc_thread *thread, bool child)
{
	sosc_instruments_part(thread, false);
	thread->borrowed = child;
	thread->sealed = 0;
	identify(thread);
	thread->quiet = child && !is_followed();
}

/**
 * From now on @thread writes what thread @tid of its process has done. Return the id under which it
 * wrote before.
 */
uint32_t sosc_thread_writes_as(struct sosc_thread *thread, uint32_t tid)
{
	uint32_t before = thread->tid;

	sosc_instruments_part(thread, false);
	thread->tid = tid;
	return before;
}

/** A child is about to share the control block with this process, or shares it already. */
void sosc_thread_forks(void)
{
	if (is_followed())
		__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_FORKED,
				  __ATOMIC_RELAXED);
}

/**
 * Return whether the caller is a child that has its parent's memory, as after vfork. Makes a system
 * call.
 */
bool sosc_is_borrower(void)
{
	return sosc_process_id != (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
}

/**
 * @thread, or a thread that has no place (NULL), is about to give up privileges of this process.
 * Processes that share the control block can read each other's records and change what soscope sees
 * of each other. So the process drops the block if it has been forked or has forked. A child that
 * shares its parent's memory would take the block away from its parent, so it does nothing.
 */
void sosc_thread_changes_rights(struct sosc_thread *thread)
{
	if (sosc_is_quiet() || !is_followed() || (thread && thread->borrowed) ||
	    (!is_child && !(sosc_control->agent_flags & SOSC_AGENT_FORKED)))
		return;
	if (!sosc_is_sealed(thread) && sosc_is_borrower())
		return;
	__atomic_fetch_add(&sosc_control->dropped[SOSC_DROP_RIGHTS], 1, __ATOMIC_RELAXED);
	if (thread)
		sosc_instruments_part(thread, false);
	sosc_quiet = true;
	if (!sosc_is_sealed(thread))
		leave_session();
}

// Returns the preferred place of the thread at @tp, as FIND_THREAD computes it.
static inline uint32_t first_place(uint64_t tp)
{
	return (uint32_t)(tp >> 12) * THREAD_FACTOR >> (32 - THREAD_BITS);
}

static inline struct sosc_thread *place_at(uint64_t tp, uint32_t probe)
{
	return &sosc_threads[(first_place(tp) + probe) & (THREAD_COUNT - 1)];
}

// Takes the place of an ended thread. A thread may begin with the thread pointer of the ended one,
// and would have its place. The kernel has put its id into the descriptor before it runs. Either we
// find the id, or the new thread finds another key.
static bool take_place(struct sosc_thread *place, uint64_t tp, uint32_t pid)
{
	uint64_t key = __atomic_load_n(&place->key, __ATOMIC_RELAXED), mine = tp;

	if (!sosc_thread_has_ended(place, pid) ||
	    !__atomic_compare_exchange_n(&place->key, &key, tp, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return false;
	if (sosc_thread_pointer_is_free(key, pid))
		return true;
	(void)__atomic_compare_exchange_n(&place->key, &mine, key, false, __ATOMIC_SEQ_CST,
					  __ATOMIC_RELAXED);
	return false;
}

// All places that @tp may have are taken: return the place of a thread that has ended. The new
// thread continues as if the ended thread had had the same thread pointer. Return NULL if living
// threads have all of the places.
static struct sosc_thread *look_for_ended(uint64_t tp)
{
	uint32_t pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);

	for (uint32_t probe = 0; probe < PROBES; probe++)
		if (take_place(place_at(tp, probe), tp, pid))
			return place_at(tp, probe);
	return NULL;
}

// A thread without a place comes here at each call. After one search in vain, most of these calls
// do not search again.
static struct sosc_thread *take_over(uint64_t tp)
{
	static uint32_t refused;
	struct sosc_thread *place = NULL;

	if (!sosc_tid_offset || sosc_is_sealed(NULL))
		return NULL;
	if (__atomic_load_n(&refused, __ATOMIC_RELAXED) % PROBES == 0)
		place = look_for_ended(tp);
	if (!place)
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
	return place;
}

static struct sosc_thread *find(uint64_t tp)
{
	for (uint32_t probe = 0; probe < PROBES; probe++) {
		struct sosc_thread *thread = place_at(tp, probe);
		uint64_t key = __atomic_load_n(&thread->key, __ATOMIC_ACQUIRE);

		if (!key && __atomic_compare_exchange_n(&thread->key, &key, tp, false,
							__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			key = tp;
		if (key == tp)
			return thread;
	}
	return take_over(tp);
}

// A signal handler may come here in the middle and do all of this. What it has taken stays, and
// nothing is taken twice. At worst one more count array is used.
static void fill_in(struct sosc_thread *thread)
{
	uint32_t no_chunk = 0;
	uint64_t no_pos = 0;

	// before glibc 2.34 the first thread's id is not in its descriptor yet when the agent
	// starts
	if (!sosc_tid_offset && !sosc_is_sealed(thread))
		find_tid_offset(0);
	(void)__atomic_compare_exchange_n(&thread->chunk, &no_chunk, SOSC_NONE, false,
					  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	(void)__atomic_compare_exchange_n(&thread->pos, &no_pos, SOSC_NO_ROOM, false,
					  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	identify(thread);
	thread->tid_check = tid_check();
	sosc_instruments_thread(thread);
	sosc_parked_give(thread);
	__atomic_store_n(&thread->ready, THREAD_READY, __ATOMIC_RELEASE);
}

static struct sosc_thread *self(void)
{
	struct sosc_thread *thread = find(sosc_thread_pointer());

	if (!thread)
		return NULL;
	if (!thread->ready)
		fill_in(thread);
	else if (thread->tid_check != tid_check())
		rename_thread(thread);
	return thread;
}

static void notice_fork(void)
{
	sosc_parent_id = sosc_process_id;
	*alive = ++generation;
	forked_tp = sosc_thread_pointer();
	forked_sp = (uint64_t)__builtin_frame_address(0);
	is_child = true;
	sosc_process_id = sosc_is_sealed(NULL) ? 0 : (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	sosc_thread_forks();
	if (!is_followed()) {
		sosc_quiet = true;
		leave_session();
	}
	sosc_instruments_forked(sosc_quiet);
}

/**
 * Return whether this process records nothing. That is so in a child that is not followed, which
 * may not have made a hooked call yet, and in any process whose recording has ended.
 */
bool sosc_is_quiet(void)
{
	if (!sosc_process())
		notice_fork();
	return sosc_quiet;
}

static __attribute__((noinline)) struct sosc_thread *find_or_make(void)
{
	for (;;) {
		uint32_t process = sosc_process();
		uint64_t session = sosc_inside.sessions;
		struct sosc_thread *thread;

		if (!process) {
			notice_fork();
			continue;
		}
		if (sosc_quiet)
			return NULL;
		thread = self();
		if (process == sosc_process())
			return thread;
		if (!thread)
			continue;
		thread->ready = 0; // its ids were read before the fork
		if (session != sosc_inside.sessions || !is_followed()) {
			// filled in for an earlier session, or by a child that has not yet noticed
			// that it is one
			thread->key = 0;
		}
	}
}

/**
 * Return this thread's state. It is made on the thread's first call. Return NULL in a child that is
 * not followed, and if the table is full.
 */
struct sosc_thread *sosc_thread_self(void)
{
	uint64_t tp = sosc_thread_pointer();
	struct sosc_thread *thread = &sosc_threads[first_place(tp)];

	// in a forked child all fields are 0
	if (thread->key == tp && thread->ready && thread->tid_check == tid_check() && !sosc_quiet)
		return thread;
	return find_or_make();
}

/**
 * Return whether a call whose return address lies at @sp, and that this process does not know, was
 * made by the process that forked this one. Such a call returns in both processes.
 */
bool sosc_thread_inherits(uint64_t sp)
{
	if (!forked_sp || sosc_thread_pointer() != forked_tp || sp < forked_sp)
		return false;
	forked_sp = sp + 8; // calls from here on are this process's own
	return true;
}
