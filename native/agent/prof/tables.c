// SPDX-License-Identifier: Apache-2.0
// Each thread has a table of its own, and writes it without a lock. If none is left, a new thread
// takes over the table of a thread that has ended, and the table then holds the sums of both.
// Otherwise it shares the first table.

#include "base/instrument.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/handler.h"
#include "prof/entries.h"
#include "prof/prof.h"
#include "thread/counts.h"
#include "thread/thread.h"

enum {
	TABLES_MOST = 1024,
	FREE = UINT16_MAX, // in place of an owner that has certainly ended
};

_Static_assert(THREAD_COUNT < FREE, "owners are numbers of 16 bits");

struct wiped { // memory that is wiped in a forked child
	struct sosc_prof_thread threads[THREAD_COUNT];
	uint16_t owners[TABLES_MOST]; // for each table, index of its thread + 1
};

struct sosc_prof *sosc_prof;
const struct sosc_prof *sosc_prof_given;
struct sosc_prof_thread *sosc_prof_threads;
struct sosc_prof_table *sosc_prof_shared;

static struct wiped *wiped;

static struct sosc_prof_table *table_at(uint32_t index)
{
	return (void *)((uint8_t *)sosc_prof + sosc_prof_given->first_table +
			(uint64_t)index * SOSC_PROF_TABLE_SIZE);
}

/** A session begins, with all threads stopped. Return false if there is no memory. */
bool sosc_prof_tables_start(void)
{
	if (!wiped) {
		void *map = sosc_mmap(NULL, sizeof(*wiped), PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (sosc_mmap_failed(map))
			return false;
		(void)sosc_sys3(SYS_MADVISE, (long)map, sizeof(*wiped), MADV_WIPEONFORK);
		wiped = map;
		sosc_prof_threads = wiped->threads;
	} else {
		(void)sosc_sys3(SYS_MADVISE, (long)wiped, sizeof(*wiped), MADV_DONTNEED);
	}
	sosc_prof->used = 1;
	sosc_prof_shared = table_at(0);
	return true;
}

/** The session is over, see sosc_session_rest. */
void sosc_prof_rest(void)
{
	sosc_prof = NULL;
	sosc_prof_given = NULL;
	sosc_prof_shared = NULL;
	sosc_prof_threads = NULL;
	if (wiped)
		(void)sosc_sys3(SYS_MUNMAP, (long)wiped, sizeof(*wiped), 0);
	wiped = NULL;
	sosc_prof_stubs_rest();
}

static void begin(struct sosc_prof_thread *mine, struct sosc_prof_table *table,
		  const struct sosc_thread *thread)
{
	mine->table = table;
	sosc_prof_leave_all(mine, table);
	table->pid = thread->pid;
	table->tid = thread->tid;
	table->threads++;
}

static uint16_t place_of(const struct sosc_thread *thread)
{
	return (uint16_t)(thread - sosc_threads + 1);
}

// A thread begins: releases the table of the ended thread whose entry this thread has taken. While
// this thread uses the entry, no other thread can tell that the former one has ended. A signal
// handler may run this, too, and take a table meanwhile.
static void set_free(struct sosc_prof_thread *mine, const struct sosc_thread *thread)
{
	uint32_t used = __atomic_load_n(&sosc_prof->used, __ATOMIC_RELAXED);

	if (mine->tid == thread->tid_check)
		return;
	__atomic_store_n(&mine->key, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	mine->tid = thread->tid_check;
	for (uint32_t i = 1; i < used && i < TABLES_MOST; i++) {
		uint16_t owner = place_of(thread);

		if (__atomic_load_n(&mine->key, __ATOMIC_RELAXED))
			return;
		(void)__atomic_compare_exchange_n(&wiped->owners[i], &owner, FREE, false,
						  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	}
}

static struct sosc_prof_table *take_new(const struct sosc_thread *thread)
{
	uint32_t used = __atomic_load_n(&sosc_prof->used, __ATOMIC_RELAXED);

	while (used < sosc_prof_given->tables && used < TABLES_MOST)
		if (__atomic_compare_exchange_n(&sosc_prof->used, &used, used + 1, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			wiped->owners[used] = place_of(thread);
			return table_at(used);
		}
	return NULL;
}

static bool is_over(uint16_t owner, uint32_t pid)
{
	return owner == FREE || (owner && sosc_thread_has_ended(&sosc_threads[owner - 1], pid));
}

// Returns the table of a thread that has ended, NULL if there is none. Another thread may have
// taken the ended thread's entry.
static struct sosc_prof_table *take_over(const struct sosc_thread *thread)
{
	uint32_t used = __atomic_load_n(&sosc_prof->used, __ATOMIC_RELAXED), pid;

	if (!sosc_tid_offset || sosc_is_sealed(thread))
		return NULL;
	pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
	for (uint32_t i = 1; i < used && i < TABLES_MOST; i++) {
		uint16_t owner = __atomic_load_n(&wiped->owners[i], __ATOMIC_RELAXED);
		uint16_t mine = place_of(thread);

		if (!is_over(owner, pid) ||
		    !__atomic_compare_exchange_n(&wiped->owners[i], &owner, mine, false,
						 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		if (is_over(owner, pid))
			return table_at(i);
		// a thread has taken that entry meanwhile, and has the table already
		(void)__atomic_compare_exchange_n(&wiped->owners[i], &mine, owner, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	return NULL;
}

/** This process records nothing (any more): its hooks return at once. */
void sosc_prof_mute(void)
{
	uint64_t count = sosc_inside.cell_count;

	sosc_prof_entries_mute();
	for (uint64_t i = 0; i < count && i < SOSC_MAX_SLOTS; i++)
		if (sosc_layers[i].instrument == SOSC_INSTRUMENT_PROF &&
		    sosc_cells[i].handler != (uint64_t)sosc_h_jump)
			__atomic_store_n(&sosc_cells[i].handler, (uint64_t)sosc_prof_quiet,
					 __ATOMIC_RELAXED);
}

/**
 * Find this thread, with a table of its own or with the shared one. Return NULL if nothing is
 * recorded.
 */
struct sosc_prof_thread *sosc_prof_thread_slow(void)
{
	static struct sosc_prof_thread nobody;

	for (;;) {
		struct sosc_thread *thread = sosc_thread_self();
		struct sosc_prof_thread *mine;
		struct sosc_prof_table *table;
		uint32_t process = sosc_process();
		uint64_t key = sosc_thread_pointer();

		if (!sosc_prof || sosc_quiet) {
			sosc_prof_mute();
			return NULL;
		}
		nobody.table = sosc_prof_shared;
		if (!thread)
			return &nobody;
		mine = &sosc_prof_threads[thread - sosc_threads];
		if (mine->key == key && mine->tid == thread->tid_check)
			return mine;
		if (mine->key == key + 1 && mine->tid == thread->tid_check)
			return &nobody;
		set_free(mine, thread);
		table = take_new(thread);
		if (!table)
			table = take_over(thread);
		if (table)
			begin(mine, table, thread);
		else
			__atomic_fetch_add(&sosc_prof_shared->threads, 1, __ATOMIC_RELAXED);
		mine->tid = thread->tid_check;
		__atomic_store_n(&mine->key, table ? key : key + 1, __ATOMIC_RELEASE);
		if (process == sosc_process())
			return table ? mine : &nobody;
		mine->key = 0; // a signal handler has forked meanwhile: the table is the parent's
	}
}

/**
 * @image has been unloaded in this process. The first table may be shared with other processes,
 * which may still have the image.
 */
void sosc_prof_closed(const struct sosc_loaded *image)
{
	uint32_t used = sosc_prof ? __atomic_load_n(&sosc_prof->used, __ATOMIC_RELAXED) : 0;
	uint32_t pid = (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);

	for (uint32_t i = sosc_prof && sosc_prof->flags & SOSC_PROF_FOLLOWED ? 1 : 0; i < used; i++)
		if (!i || table_at(i)->pid == pid)
			sosc_prof_mark(table_at(i), image);
}
