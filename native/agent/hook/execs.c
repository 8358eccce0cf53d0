// SPDX-License-Identifier: Apache-2.0
// Counts programs that children execute while children are not followed. A child of fork leaves the
// control block before it does anything else. It counts the programs that it executes, and their
// names, only in a page of a file of its own. Only soscope uses that page. A child of vfork has its
// parent's memory, and posix_spawn and similar functions execute a program in one call: they count
// in the page, too. An exec is counted when it begins, because nothing of the caller is left when
// it succeeds. If it fails, it subtracts what it has counted. A process that executes a program in
// its own place does the same, in the control block.

#include "hook/execs.h"
#include "base/memory.h"
#include "base/sys.h"
#include "thread/thread.h"

enum {
	PATH_MOST = 4096, // PATH_MAX: longest path that the kernel accepts, in bytes
	PIECE = 64, // bytes of a path that are read at a time; no piece crosses a page boundary
	ATTEMPTS = 1024, // threads whose ids differ by a multiple of this share an entry
	UNNAMED = SOSC_EXEC_NAMES, // in place of the index of a name
	HERE, // the same, for a program that replaces the caller's
};

static struct sosc_execs *page; // NULL if soscope does not want it
static uint64_t place; // address where it is mapped, 0 if not mapped

// The latest exec of each thread: thread id << 32 | index of its name + 1, indexed by the thread
// id. A child of fork has its own table. Children of vfork share their parent's.
static uint64_t attempts[ATTEMPTS];

/**
 * If the new session has a page, map it where the last session had its page. If the new session
 * has none, map zeros there.
 */
void sosc_execs_start(const struct sosc_start *start)
{
	bool is_shared = start->execs_fd >= 0;
	void *map;

	page = NULL;
	if (!is_shared && !place)
		return;
	map = sosc_mmap((void *)place, sizeof(*page), PROT_READ | PROT_WRITE,
			(place ? MAP_FIXED : 0) |
				(is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS),
			is_shared ? start->execs_fd : -1, 0);
	if (sosc_mmap_failed(map))
		return;
	place = (uint64_t)map;
	(void)sosc_sys3(SYS_MADVISE, (long)map, sizeof(*page), MADV_DONTDUMP);
	if (is_shared)
		page = map;
}

/** The session is over: unmap the page. */
void sosc_execs_rest(void)
{
	page = NULL;
	if (place)
		(void)sosc_sys3(SYS_MUNMAP, (long)place, sizeof(*page), 0);
	place = 0;
}

/** Return whether soscope wants programs of children counted. */
bool sosc_execs_wanted(void)
{
	return page;
}

/** Return whether the caller is a child that is not followed. @thread is the caller or NULL. */
bool sosc_execs_is_child(const struct sosc_thread *thread)
{
	if (sosc_is_quiet() || (thread && thread->borrowed))
		return true;
	return !sosc_is_sealed(thread) && sosc_is_borrower();
}

// Reads the last component of the path at @path, which may be any address. @name becomes empty if
// the path cannot be read.
static void read_name(uint32_t tid, uint64_t path, char name[sizeof(page->names[0].name)])
{
	char piece[PIECE];
	uint64_t length = 0, size;

	memset(name, 0, sizeof(page->names[0].name));
	for (uint64_t at = path; at - path < PATH_MOST; at += size) {
		size = PIECE - at % PIECE;
		if (sosc_read(tid, piece, at, size) != size)
			break;
		for (uint64_t i = 0; i < size; i++) {
			if (!piece[i])
				return;
			if (piece[i] == '/')
				memset(name, 0, sizeof(page->names[0].name)), length = 0;
			else if (length < sizeof(page->names[0].name) - 1)
				name[length++] = piece[i];
		}
	}
	name[0] = 0;
}

static bool is_called(const struct sosc_exec *exec, const char name[sizeof(exec->name)])
{
	return __atomic_load_n(&exec->state, __ATOMIC_ACQUIRE) == SOSC_EXEC_NAMED &&
	       memcmp(exec->name, name, sizeof(exec->name)) == 0;
}

// Returns the index at which programs of this name are counted. Returns UNNAMED if there is no room
// for another name.
static uint32_t index_of(const char name[sizeof(page->names[0].name)])
{
	for (uint32_t i = 0; i < SOSC_EXEC_NAMES; i++) {
		struct sosc_exec *exec = &page->names[i];
		uint32_t free = SOSC_EXEC_FREE;

		if (is_called(exec, name))
			return i;
		if (!__atomic_compare_exchange_n(&exec->state, &free, SOSC_EXEC_TAKEN, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		memcpy(exec->name, name, sizeof(exec->name));
		__atomic_store_n(&exec->state, SOSC_EXEC_NAMED, __ATOMIC_RELEASE);
		return i;
	}
	return UNNAMED;
}

static bool keep_attempt(uint32_t tid, uint32_t index)
{
	__atomic_store_n(&attempts[tid % ATTEMPTS], (uint64_t)tid << 32 | (index + 1),
			 __ATOMIC_RELAXED);
	return true;
}

/**
 * A program that is not followed is about to be executed. @path is the address of its path, 0 if
 * the call gives none. @thread is the caller or NULL. Return false if the count cannot be taken
 * back.
 */
bool sosc_execs_begin(const struct sosc_thread *thread, uint64_t path)
{
	char name[sizeof(page->names[0].name)];
	uint32_t tid, index = UNNAMED;

	__atomic_fetch_add(&page->programs, 1, __ATOMIC_RELAXED);
	if (sosc_is_sealed(thread))
		return false;
	tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	if (path)
		read_name(tid, path, name);
	if (path && name[0])
		index = index_of(name);
	if (index != UNNAMED)
		__atomic_fetch_add(&page->names[index].programs, 1, __ATOMIC_RELAXED);
	return keep_attempt(tid, index);
}

/**
 * The same for a program that replaces the program of this process, which is not a child. Return
 * false if it is not counted.
 */
bool sosc_execs_begin_here(const struct sosc_thread *thread)
{
	if (sosc_is_sealed(thread))
		return false; // the count could not be taken back
	__atomic_fetch_add(&sosc_control->executing, 1, __ATOMIC_RELAXED);
	return keep_attempt((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), HERE);
}

/** The exec has failed. Return false if the caller had not begun to execute a program. */
bool sosc_execs_failed(const struct sosc_thread *thread)
{
	uint64_t attempt;
	uint32_t tid;

	if (sosc_is_sealed(thread))
		return false;
	tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	attempt = __atomic_load_n(&attempts[tid % ATTEMPTS], __ATOMIC_RELAXED);
	if (attempt >> 32 != tid)
		return false;
	attempts[tid % ATTEMPTS] = 0;
	if ((uint32_t)attempt == HERE + 1) {
		__atomic_fetch_sub(&sosc_control->executing, 1, __ATOMIC_RELAXED);
		return true;
	}
	if (!page)
		return true;
	__atomic_fetch_sub(&page->programs, 1, __ATOMIC_RELAXED);
	if ((uint32_t)attempt <= SOSC_EXEC_NAMES)
		__atomic_fetch_sub(&page->names[(uint32_t)attempt - 1].programs, 1,
				   __ATOMIC_RELAXED);
	return true;
}
