// SPDX-License-Identifier: Apache-2.0
/**
 * Raw system calls (x86-64; syscall(2)): the agent links no libc and must not
 * write errno. Each returns the kernel's value, -errno on failure.
 */
#ifndef SOSC_SYS_H
#define SOSC_SYS_H

#include <stdint.h>

enum {
	SYS_MMAP = 9,
	SYS_MPROTECT = 10,
	SYS_MUNMAP = 11,
	SYS_CLOSE = 3,
	SYS_OPEN = 2,
	SYS_PWRITE64 = 18,
	SYS_RT_SIGPROCMASK = 14,
	SYS_MREMAP = 25,
	SYS_MADVISE = 28,
	SYS_GETPID = 39,
	SYS_GETTID = 186,
	SYS_FUTEX = 202,
	SYS_CLOCK_GETTIME = 228,
	SYS_TGKILL = 234,
	SYS_PROCESS_VM_READV = 310,
	SYS_READ = 0,
};

enum {
	PROT_NONE = 0,
	PROT_READ = 1,
	PROT_WRITE = 2,
	PROT_EXEC = 4,
	MAP_SHARED = 1,
	MAP_PRIVATE = 2,
	MAP_FIXED = 0x10,
	MAP_ANONYMOUS = 0x20,
	MAP_NORESERVE = 0x4000,
	MAP_FIXED_NOREPLACE = 0x100000,
	MREMAP_MAYMOVE = 1,
	MADV_DONTNEED = 4,
	MADV_WIPEONFORK = 18,
	MADV_POPULATE_WRITE = 23,
	FUTEX_WAIT = 0,
	CLOCK_REALTIME = 0,
	CLOCK_MONOTONIC_RAW = 4,
	O_WRONLY = 1,
	O_CLOEXEC = 02000000,
	ESRCH = 3,
	ENOMEM = 12,
	EPERM = 1,
	EINVAL = 22,
	ENOSYS = 38,
};

static inline long sosc_sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

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
