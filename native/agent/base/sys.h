// SPDX-License-Identifier: Apache-2.0
/**
 * Raw system calls (syscall(2)): the agent links no libc and must not write errno. Each returns the
 * kernel's value, -errno on failure. The numbers of the calls depend on the processor.
 */
#ifndef SOSC_SYS_H
#define SOSC_SYS_H

#include "base/arch.h"

enum {
	PROT_NONE = 0,
	PROT_READ = 1,
	PROT_WRITE = 2,
	PROT_EXEC = 4,
	MAP_SHARED = 1,
	MAP_PRIVATE = 2,
	MAP_FIXED = 0x10,
	MAP_ANONYMOUS = 0x20,
	MAP_GROWSDOWN = 0x100,
	MAP_NORESERVE = 0x4000,
	MAP_FIXED_NOREPLACE = 0x100000,
	MREMAP_MAYMOVE = 1,
	MREMAP_FIXED = 2,
	MADV_DONTNEED = 4,
	MADV_REMOVE = 9,
	MADV_DONTDUMP = 16,
	MADV_WIPEONFORK = 18,
	MADV_POPULATE_WRITE = 23,
	FUTEX_WAIT = 0,
	SIG_BLOCK = 0,
	SIG_SETMASK = 2,
	SIGILL = 4,
	SIGTRAP = 5,
	SIGBUS = 7,
	SIGFPE = 8,
	SIGSEGV = 11,
	SIGSYS = 31,
	CLOCK_REALTIME = 0,
	CLOCK_THREAD_CPUTIME_ID = 3,
	CLOCK_MONOTONIC_RAW = 4,
	O_RDONLY = 0,
	O_RDWR = 2,
	O_NONBLOCK = 04000,
	O_CLOEXEC = 02000000,
	F_DUPFD_CLOEXEC = 1030,
	ENOENT = 2,
	ESRCH = 3,
	ENOMEM = 12,
	EPERM = 1,
	EBADF = 9,
	EBUSY = 16,
	EINVAL = 22,
	ENOSYS = 38,
};

static inline long sosc_sys3(long nr, long a, long b, long c)
{
	return sosc_sys6(nr, a, b, c, 0, 0, 0);
}

static inline void *sosc_mmap(void *addr, uint64_t size, int prot, int flags, int fd, uint64_t off)
{
	return (void *)sosc_sys6(SYS_MMAP, (long)addr, (long)size, prot, flags, fd, (long)off);
}

static inline int sosc_mmap_failed(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)-4095;
}

#endif
