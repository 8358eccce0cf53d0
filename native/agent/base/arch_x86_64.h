// SPDX-License-Identifier: Apache-2.0
/**
 * x86-64: registers, instructions that C cannot express, numbers of the kernel and of the linker.
 */
#ifndef SOSC_ARCH_X86_64_H
#define SOSC_ARCH_X86_64_H

#include "base/agent.h"

struct sosc_cell;
struct sosc_site;

// The kernel maps nothing above this address, unless a program asks for it by a hint to mmap.
#define SOSC_ADDRESSES_END (1ull << 47)

// ---- calls (psABI, 3.2.3) --------------------------------------------------

enum {
	SOSC_REGISTER_ARGUMENTS = 6, // integer arguments in registers
	SOSC_FLOAT_ARGUMENTS = 8, // arguments in vector registers
	SOSC_RESULT_WORDS = 8, // words of all registers that hold results
};

struct sosc_regs { // registers as the handlers that call C save them, from rsp on
	uint64_t r11, r9, r8, rdi, rsi, rcx, r10, rdx, rax;
	uint64_t ret; // the return address, in its place on the stack
	uint64_t stack[]; // arguments in memory
};

/** Return the saved register of integer argument @number, 0 to 5 (psABI, 3.2.3). */
static inline uint64_t *sosc_argument(struct sosc_regs *regs, uint32_t number)
{
	switch (number) {
	case 0:
		return &regs->rdi;
	case 1:
		return &regs->rsi;
	case 2:
		return &regs->rdx;
	case 3:
		return &regs->rcx;
	case 4:
		return &regs->r8;
	default:
		return &regs->r9;
	}
}

/** Copy all integer register arguments into @words. */
static inline void sosc_arguments(const struct sosc_regs *regs,
				  uint64_t words[SOSC_REGISTER_ARGUMENTS])
{
	words[0] = regs->rdi;
	words[1] = regs->rsi;
	words[2] = regs->rdx;
	words[3] = regs->rcx;
	words[4] = regs->r8;
	words[5] = regs->r9;
}

/** Return the saved register of an integer result. */
static inline uint64_t *sosc_result(struct sosc_regs *regs)
{
	return &regs->rax;
}

/** Return the cell through which a call came to this entry handler. */
static inline struct sosc_cell *sosc_entered_by(const struct sosc_regs *regs)
{
	return (struct sosc_cell *)regs->r11;
}

/** Return the data of the return trampoline through which a call came back to this exit handler. */
static inline struct sosc_site *sosc_returned_to(const struct sosc_regs *regs)
{
	return (struct sosc_site *)(regs->r11 + SOSC_DISTANCE);
}

enum { SOSC_STATE = 512 }; // bytes that fxsave64 writes, at a multiple of 16

/**
 * Store the x87 and SSE registers as the function will see them, or has left them. Changes none of
 * them.
 */
static __attribute__((noinline, unused)) void sosc_state(uint8_t to[SOSC_STATE])
{
	__asm__ volatile("fxsave64 %0" : "=m"(*(uint8_t(*)[SOSC_STATE])to));
}

/** Copy the low halves of the vector registers in which arguments are passed. */
static inline void sosc_float_arguments(uint64_t to[SOSC_FLOAT_ARGUMENTS])
{
	uint8_t state[SOSC_STATE] __attribute__((aligned(16)));

	sosc_state(state);
	for (int i = 0; i < SOSC_FLOAT_ARGUMENTS; i++)
		memcpy(&to[i], state + 160 + 16 * i, 8);
}

/** Copy all registers that can hold a result: rax, rdx, xmm0, xmm1, st0, st1 (psABI, 3.2.3). */
static inline void sosc_results(const struct sosc_regs *regs, uint64_t to[SOSC_RESULT_WORDS])
{
	uint8_t state[SOSC_STATE] __attribute__((aligned(16)));

	sosc_state(state);
	to[0] = regs->rax;
	to[1] = regs->rdx;
	for (int i = 0; i < 2; i++) {
		memcpy(&to[2 + i], state + 160 + 16 * i, 8);
		memcpy(&to[4 + 2 * i], state + 32 + 16 * i, 16);
	}
}

enum { SOSC_VECTORS_SIZE = 512 }; // bytes of all vector argument registers at their widest

#pragma GCC visibility push(hidden)
bool sosc_vectors(uint8_t to[SOSC_VECTORS_SIZE], uint32_t size);
#pragma GCC visibility pop

// ---- variable arguments (psABI, 3.5.7) --------------------------------------

enum {
	SOSC_SAVED_INTEGERS = 48, // bytes of a register save area: saved integers end here,
	SOSC_SAVED_SIZE = 176, // and saved vector registers, 16 bytes each, end here
};

struct sosc_va_list {
	// offsets of the next argument of each kind in the register save area
	uint32_t integers, floats;
	uint64_t memory; // addr of the next argument that was passed on the stack
	uint64_t saved; // addr of the register save area
};

// ---- frames (psABI, 3.6.2; the kernel's struct rt_sigframe) ------------------

enum {
	SOSC_DWARF_FP = 6, // columns of unwind tables: rbp,
	SOSC_DWARF_SP = 7, // rsp
	// offsets from the stack pointer in the caller of a signal handler to the interrupted
	// registers
	SOSC_SIGNAL_FP = 120,
	SOSC_SIGNAL_SP = 160,
	SOSC_SIGNAL_ADDR = 168,
	SOSC_SIGNAL_RETURN_SIZE = 9, // bytes of code in such a caller (the restorer)
};

// ---- threads ---------------------------------------------------------------

// Offset of the thread id from the thread pointer in C libraries: glibc, musl, musl 1.1.
#define SOSC_TID_OFFSETS {0x2d0, 0x30, 0x38}

static inline uint64_t sosc_thread_pointer(void)
{
	uint64_t tp;

	__asm__("mov %%fs:0, %0" : "=r"(tp));
	return tp;
}

/** Return the current value of this thread's int at @offset from the thread pointer. */
static inline uint32_t sosc_thread_word(int64_t offset)
{
	uint32_t value;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(value) : "r"(offset));
	return value;
}

static inline void sosc_set_thread_word(int64_t offset, uint32_t value)
{
	__asm__ volatile("movl %0, %%fs:(%1)" : : "r"(value), "r"(offset) : "memory");
}

// Each of these is one instruction without a lock prefix. It is atomic for signal handlers of the
// same thread, and not for other threads.

static inline void sosc_local_increment(uint64_t *at)
{
	__asm__ volatile("incq %0" : "+m"(*at));
}

/** Add @add to a word. Return the value before. */
static inline uint64_t sosc_local_add(uint64_t *at, uint64_t add)
{
	__asm__ volatile("xaddq %0, %1" : "+r"(add), "+m"(*at) : : "memory");
	return add;
}

/** Add @add to a word without returning the value before, which takes less time. */
static inline void sosc_local_increase(uint64_t *at, uint64_t add)
{
	__asm__ volatile("addq %1, %0" : "+m"(*at) : "r"(add) : "memory", "cc");
}

/**
 * If the pair of words at @at, a multiple of 16, equals @from, store @to there atomically. Return
 * whether it did.
 */
static inline bool sosc_swap_pair(uint64_t at[2], const uint64_t from[2], const uint64_t to[2])
{
	uint64_t low = from[0], high = from[1];
	bool done;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*(uint64_t(*)[2])at), "+a"(low), "+d"(high)
			 : "b"(to[0]), "c"(to[1])
			 : "memory");
	return done;
}

static inline uint32_t sosc_local_add_short(uint32_t *at, uint32_t add)
{
	__asm__ volatile("xaddl %0, %1" : "+r"(add), "+m"(*at) : : "memory");
	return add;
}

/** If the word at @at equals @from, store @to there. Return whether it did. */
static inline bool sosc_local_swap(uint64_t *at, uint64_t from, uint64_t to)
{
	bool done;

	__asm__ volatile("cmpxchgq %3, %1"
			 : "=@ccz"(done), "+m"(*at), "+a"(from)
			 : "r"(to)
			 : "memory");
	return done;
}

// ---- other instructions ----------------------------------------------------

/** Read the time stamp counter. See sosc_ticks. */
static inline uint64_t sosc_read_counter(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/**
 * Return 0 in a way that makes the processor wait for @tsc: an instruction that adds the 0 to an
 * address cannot run before rdtsc has finished.
 */
static inline uint64_t sosc_zero_behind(uint64_t tsc)
{
	__asm__("andl $0, %k0" : "+r"(tsc) : : "cc");
	return tsc;
}

/** Let the processor finish all instructions before this point before it reads the counter. */
static inline void sosc_counter_waits(void)
{
	__asm__ volatile("lfence" : : : "memory");
}

/** Prefetch @addr for writing. The address need not be mapped. */
static inline void sosc_will_write(uint64_t addr)
{
	__asm__ volatile("prefetchw (%0)" : : "r"(addr));
}

/** Tell the processor that this is a loop that waits for another thread. */
static inline void sosc_pause(void)
{
	__asm__ volatile("pause");
}

static inline void sosc_copy_bytes(void *to, const void *from, size_t size)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

static inline void sosc_fill_bytes(void *to, int byte, size_t size)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
}

// ---- relocation types ------------------------------------------------------

enum {
	// address of a function, may be bound lazily
	SOSC_RELOCATION_JUMP_SLOT = R_X86_64_JUMP_SLOT,
	SOSC_RELOCATION_GLOB_DAT = R_X86_64_GLOB_DAT, // address of any symbol
	SOSC_RELOCATION_ABSOLUTE = R_X86_64_64, // address of any symbol, in the program's own data
	SOSC_RELOCATION_RELATIVE = R_X86_64_RELATIVE, // an address in the image itself
};

// ---- system calls ----------------------------------------------------------

enum {
	SYS_MMAP = 9,
	SYS_MPROTECT = 10,
	SYS_MUNMAP = 11,
	SYS_BRK = 12,
	SYS_CLOSE = 3,
	SYS_OPEN = 2,
	SYS_PREAD64 = 17,
	SYS_PWRITE64 = 18,
	SYS_RT_SIGPROCMASK = 14,
	SYS_ACCESS = 21,
	SYS_MREMAP = 25,
	SYS_MADVISE = 28,
	SYS_GETPID = 39,
	SYS_FCNTL = 72,
	SYS_GETRUSAGE = 98,
	SYS_GETTID = 186,
	SYS_FUTEX = 202,
	SYS_CLOCK_GETTIME = 228,
	SYS_EXIT_GROUP = 231,
	SYS_TGKILL = 234,
	SYS_PROCESS_VM_READV = 310,
	SYS_READ = 0,
	SYS_GETPEERNAME = 52,
	// the agent never makes the following system calls, but watches for all of them (guard.c)
	SYS_PRCTL = 157,
	SYS_SECCOMP = 317,
	SYS_SETUID = 105,
	SYS_SETGID = 106,
	SYS_SETREUID = 113,
	SYS_SETREGID = 114,
	SYS_SETGROUPS = 116,
	SYS_SETRESUID = 117,
	SYS_SETRESGID = 119,
	SYS_SETFSUID = 122,
	SYS_SETFSGID = 123,
	SYS_CAPSET = 126,
	SYS_UNSHARE = 272,
	SYS_SETNS = 308,
	SYS_EXECVE = 59,
	SYS_EXECVEAT = 322,
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

#endif
