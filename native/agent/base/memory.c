// SPDX-License-Identifier: Apache-2.0
// Reading memory that may be unmapped, and writing to read-only pages.

#include "base/memory.h"
#include "base/state.h"
#include "base/sys.h"

static uint64_t whole_pages(uint64_t size)
{
	return (size + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
}

/**
 * Return whether a word can be read at @addr. rt_sigprocmask reads the new mask before it checks
 * `how`, and -1 is not a valid `how`.
 */
bool sosc_is_readable(uint64_t addr)
{
	return sosc_sys6(SYS_RT_SIGPROCMASK, -1, (long)(addr & ~7ull), 0, 8, 0, 0) == -EINVAL;
}

/**
 * Copy at most @size bytes of this process without faulting. @pid has to be the id of a living
 * thread of the process. Return how many bytes could be read.
 */
uint64_t sosc_read(uint32_t pid, void *to, uint64_t from, uint64_t size)
{
	struct {
		uint64_t base, size;
	} local = {(uint64_t)to, size}, remote = {from, size};
	long done = sosc_sys6(SYS_PROCESS_VM_READV, pid, (long)&local, 1, (long)&remote, 1, 0);
	uint64_t end;

	if (done != -EPERM && done != -ENOSYS)
		return done > 0 ? (uint64_t)done : 0;
	// The system call is forbidden, as by the seccomp filters of containers.
	for (end = from; end - from < size; end = (end | (SOSC_PAGE - 1)) + 1)
		if (!sosc_is_readable(end))
			break;
	if (end - from < size)
		size = end - from;
	memcpy(to, (const void *)from, size);
	return size;
}

bool sosc_protect(uint64_t start, uint64_t end, int prot)
{
	return end <= start || sosc_sys3(SYS_MPROTECT, (long)start, (long)(end - start), prot) == 0;
}

/**
 * Fill @size bytes at @at with zeros, in memory of the agent. Whole pages of it then use no memory.
 */
void sosc_memory_clear(void *at, uint64_t size)
{
	uint64_t from = (uint64_t)at, end = from + size, first = whole_pages(from);
	uint64_t last = end & ~(uint64_t)(SOSC_PAGE - 1);

	// pages that are locked in memory cannot be dropped
	if (last <= first ||
	    sosc_sys3(SYS_MADVISE, (long)first, (long)(last - first), MADV_DONTNEED)) {
		memset(at, 0, size);
		return;
	}
	memset(at, 0, first - from);
	memset((void *)last, 0, end - last);
}

enum { LENT_MOST = 8192 };

static struct lent {
	uint64_t at, size;
	// the word that holds the address of this memory, NULL if the word lies in other such
	// memory
	uint64_t *place;
} lent[LENT_MOST];
static uint32_t lent_count;

/**
 * Map @size bytes of zeros for sessions. Return NULL if there is no memory. A caller that keeps the
 * memory calls sosc_memory_keep, or unmaps it itself when the agent rests.
 */
void *sosc_memory_map(uint64_t size)
{
	void *map = sosc_mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sosc_mmap_failed(map) ? NULL : map;
}

/** Unmap @size bytes at @map, if it is not NULL. */
void sosc_memory_unmap(void *map, uint64_t size)
{
	if (map)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)size, 0);
}

/**
 * @map, of @size bytes, is in use until the agent rests. Then the word at @place is set to 0.
 * @place is NULL if that word will no longer exist. If too many mappings are kept, this one stays
 * for ever.
 */
void sosc_memory_keep(void *map, uint64_t size, void *place)
{
	uint32_t number = __atomic_fetch_add(&lent_count, 1, __ATOMIC_RELAXED);

	if (number < LENT_MOST)
		lent[number] = (struct lent){(uint64_t)map, size, place};
}

/** The agent rests: unmap all memory that was kept. */
void sosc_memory_rest(void)
{
	for (uint32_t i = 0; i < lent_count && i < LENT_MOST; i++) {
		if (lent[i].place)
			*lent[i].place = 0;
		(void)sosc_sys3(SYS_MUNMAP, (long)lent[i].at, (long)lent[i].size, 0);
	}
	sosc_memory_clear(lent, sizeof(lent));
	lent_count = 0;
}

static bool is_often;
static int32_t open_fd; // the descriptor + 1, 0 = none

/**
 * @often is true before many calls of sosc_write, while no other thread runs that could see the
 * descriptor, and false after the last one.
 */
void sosc_write_often(bool often)
{
	if (open_fd)
		(void)sosc_sys3(SYS_CLOSE, open_fd - 1, 0, 0);
	open_fd = 0;
	is_often = often;
}

// /proc/thread-self/mem writes through page protection, and the page stays executable for other
// threads. mprotect could not keep it so. /proc/self/mem has no memory if the process's first
// thread has ended.
static long open_memory(void)
{
	static const char path[] = "/proc/thread-self/mem";

	return sosc_sys3(SYS_OPEN, (long)path, O_RDWR | O_CLOEXEC, 0);
}

enum {
	ENOUGH = 16, // bytes by which files are told apart
	OUT_OF_THE_WAY = 900, // programs seldom have descriptors with such numbers
	TRIES = 3,
};

// Returns whether @fd shows the bytes around @addr at that offset. No other file has such bytes at
// so large an offset.
static bool is_memory(long fd, uint64_t addr)
{
	uint64_t at = addr & ~(uint64_t)(ENOUGH - 1);
	uint8_t seen[ENOUGH];

	return sosc_sys6(SYS_PREAD64, fd, (long)seen, ENOUGH, (long)at, 0, 0) == ENOUGH &&
	       memcmp(seen, (const void *)at, ENOUGH) == 0;
}

// Opens the memory file while other threads run. They may close descriptors that they have not
// opened, as close_range does before an exec, and open files of their own, which get the same
// number. The agent must neither write to nor close such a file.
static long open_among_others(uint64_t addr)
{
	long fd = open_memory(), moved;

	if (fd < 0)
		return fd;
	moved = sosc_sys3(SYS_FCNTL, fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	if (moved < 0) // the number is beyond the limit of open files
		return is_memory(fd, addr) ? fd : -EBADF;
	if (is_memory(moved, addr)) {
		(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
		return moved;
	}
	(void)sosc_sys3(SYS_CLOSE, moved, 0, 0);
	return -EBADF;
}

// If a process filters its own system calls, the agent makes no further ones for the check.
static bool write_by_file(uint64_t addr, const void *bytes, uint64_t size)
{
	long fd = open_fd ? open_fd - 1 : -EBADF;
	bool done;

	if (!open_fd && (is_often || sosc_is_process_sealed()))
		fd = open_memory();
	for (int tries = 0; fd == -EBADF && tries < TRIES; tries++)
		fd = open_among_others(addr);
	if (fd < 0)
		return false;
	done = sosc_sys6(SYS_PWRITE64, fd, (long)bytes, (long)size, (long)addr, 0, 0) == (long)size;
	if (is_often)
		open_fd = (int32_t)fd + 1;
	else
		(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
	return done;
}

/**
 * Write @size bytes at @addr, whose page may be read-only. @text tells that the page is executable.
 * Return whether the bytes are there now.
 */
bool sosc_write(uint64_t addr, const void *bytes, uint64_t size, bool text)
{
	uint64_t start = addr & ~(uint64_t)(SOSC_PAGE - 1);
	uint64_t end = whole_pages(addr + size);

	int prot = PROT_READ | (text ? PROT_EXEC : 0);

	if (write_by_file(addr, bytes, size))
		return memcmp((const void *)addr, bytes, size) == 0;
	// In a process that has given up its privileges, /proc/thread-self/mem belongs to root and
	// cannot be opened. Code stays executable during mprotect.
	if ((text && sosc_is_process_sealed()) || !sosc_protect(start, end, prot | PROT_WRITE))
		return false;
	memcpy((void *)addr, bytes, size);
	(void)sosc_protect(start, end, prot);
	return true;
}
