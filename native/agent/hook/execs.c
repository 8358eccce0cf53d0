// SPDX-License-Identifier: Apache-2.0
// Programs that children execute which nobody follows. A child of fork leaves the control block
// before it does anything else, and writes into a page of its own file alone how many programs it
// executes, and their names. Nobody but soscope reads that page. A child of vfork has its
// parent's memory, and posix_spawn and the like execute a program in one call: they count there,
// too. An exec counts when it begins, as nothing of the caller is left when it succeeds. If it
// fails, it takes back what it has counted. So does a process that executes a program in place of
// its own, in the control block.

#include "hook/execs.h"
#include "base/memory.h"
#include "base/sys.h"
#include "thread/thread.h"

enum {
	PATH_MOST = 4096, // bytes of a path that the kernel takes: PATH_MAX
	PIECE = 64, // bytes of it that are read at a time; none crosses the end of a page
	ATTEMPTS = 1024, // threads whose ids differ by a multiple share a place
	UNNAMED = SOSC_EXEC_NAMES, // in the place of a name's index
	HERE, // the same, of a program in place of the caller's
};

static struct sosc_execs *page; // NULL if soscope does not ask for it
static uint64_t place; // where it is mapped, 0: nowhere yet

// The latest exec of each thread: thread id << 32 | index of its name + 1, by the thread id. A
// child of fork has its own; children of vfork have their parent's.
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

/** Give the page back: the session is over. */
void sosc_execs_rest(void)
{
	page = NULL;
	if (place)
		(void)sosc_sys3(SYS_MUNMAP, (long)place, sizeof(*page), 0);
	place = 0;
}

/** Whether somebody asks for them. */
bool sosc_execs_wanted(void)
{
	return page;
}

/** Whether the caller is a child that nobody follows. @thread is the caller or NULL. */
bool sosc_execs_is_child(const struct sosc_thread *thread)
{
	if (sosc_is_quiet() || (thread && thread->borrowed))
		return true;
	return !sosc_is_sealed(thread) && sosc_is_borrower();
}

// Reads the last part of the path at @path, which may be anywhere; nothing: it cannot be read.
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

// Where programs of this name are counted; UNNAMED: there is no room for another name.
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
 * A program is being executed that nobody follows. @path is the address of its path, 0: the call
 * gives none. @thread is the caller or NULL. False: it cannot be taken back.
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

/** The same, of a program in place of the caller's, which is no child. False: it is not counted. */
bool sosc_execs_begin_here(const struct sosc_thread *thread)
{
	if (sosc_is_sealed(thread))
		return false; // it could not be taken back
	__atomic_fetch_add(&sosc_control->executing, 1, __ATOMIC_RELAXED);
	return keep_attempt((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), HERE);
}

/** It has failed; false: the caller has not begun to execute one. */
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
