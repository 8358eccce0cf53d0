// SPDX-License-Identifier: Apache-2.0
// Blocks whose stacks are told by backtrace(3), too: a line `stack SIZE ADDR…` for each, innermost
// first. `restorer ADDR` says where signal handlers return to.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

typedef void *taker(long size);
void *through_inner(taker *next, long size);
void *through_outer(taker *next, long size);

static void said(long size, void **frames, int count)
{
	char text[4096];
	int at = snprintf(text, sizeof(text), "stack %ld", size);

	for (int i = 0; i < count; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " %lx", (long)frames[i]);
	text[at++] = '\n';
	if (write(1, text, (size_t)at) != at)
		abort();
}

__attribute__((noinline)) void *take(long size)
{
	void *frames[100];
	int count = backtrace(frames, 100);
	void *block = malloc((size_t)size);

	said(size, frames, count);
	return block;
}

static void touch(volatile char *room, long size)
{
	for (long i = 0; i < size; i += 4096)
		room[i] = (char)i;
}

__attribute__((noinline)) static void *with_alloca(long size, long more)
{
	char room[more];
	void *block;

	touch(room, more);
	block = take(size);
	__asm__ volatile("" : : "r"(room) : "memory");
	return block;
}

__attribute__((noinline)) static void *aligned(long size)
{
	char room[256] __attribute__((aligned(128)));
	void *block;

	touch(room, 256);
	block = take(size);
	__asm__ volatile("" : : "r"(room) : "memory");
	return block;
}

__attribute__((noinline)) static void *aligned_alloca(long size, long more)
{
	char room[256] __attribute__((aligned(64)));
	char other[more];
	void *block;

	touch(room, 256);
	touch(other, more);
	block = take(size);
	__asm__ volatile("" : : "r"(room), "r"(other) : "memory");
	return block;
}

__attribute__((noinline)) static void *large(long size)
{
	char room[300000];
	void *block;

	touch(room, sizeof(room));
	block = take(size);
	__asm__ volatile("" : : "r"(room) : "memory");
	return block;
}

__attribute__((noinline)) static void *deep(long size, int depth)
{
	void *block = depth ? deep(size, depth - 1) : take(size);

	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}

static volatile long next_size;
static sigjmp_buf back;

static void handler(int number)
{
	(void)number;
	take(next_size);
}

static void leaving_handler(int number)
{
	(void)number;
	take(next_size);
	siglongjmp(back, 1);
}

static void handle(int number, void (*function)(int), int flags)
{
	struct sigaction action = {.sa_handler = function, .sa_flags = flags};

	sigaction(number, &action, NULL);
}

__attribute__((noinline)) static int fault(volatile int *where)
{
	return *where + 1;
}

static void signals(void)
{
	struct {
		void *handler;
		long flags;
		void *restorer;
		long mask;
	} kernel;
	stack_t other = {.ss_sp = malloc(65536), .ss_size = 65536};

	handle(SIGUSR1, handler, 0);
	syscall(SYS_rt_sigaction, SIGUSR1, NULL, &kernel, 8);
	printf("restorer %lx\n", (long)kernel.restorer);
	fflush(stdout);
	next_size = 201;
	raise(SIGUSR1);
	sigaltstack(&other, NULL);
	handle(SIGUSR2, handler, SA_ONSTACK);
	next_size = 202;
	raise(SIGUSR2);
	next_size = 203;
	handle(SIGSEGV, leaving_handler, SA_ONSTACK);
	if (!sigsetjmp(back, 1))
		fault(NULL);
	next_size = 204;
	handle(SIGSEGV, leaving_handler, 0);
	if (!sigsetjmp(back, 1))
		fault((int *)8);
}

static void *thread(void *size)
{
	take((long)size);
	through_inner(take, (long)size + 1);
	return NULL;
}

static ucontext_t here, there;

static void coroutine(void)
{
	take(451);
	through_outer(take, 452);
	swapcontext(&there, &here);
}

static void contexts(void)
{
	static char stack[65536];

	getcontext(&there);
	there.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof(stack)};
	there.uc_link = &here;
	makecontext(&there, coroutine, 0);
	swapcontext(&here, &there);
	take(453);
}

static int compared;

static int compare(const void *a, const void *b)
{
	if (!compared++)
		take(501);
	return *(const int *)a - *(const int *)b;
}

static void once(void)
{
	take(502);
}

static void at_exit(void)
{
	take(601);
}

int main(int argc, char **argv)
{
	static pthread_once_t control = PTHREAD_ONCE_INIT;
	int numbers[] = {3, 1, 2};
	pthread_t other;
	void *warm[4];

	backtrace(warm, 4); // loads what it needs
	take(101);
	for (long i = 0; i < 3; i++) {
		through_outer(take, 110 + i);
		through_inner(take, 120 + i);
	}
	for (long i = 0; i < 4; i++)
		with_alloca(130 + i, 100 + 5000 * i);
	aligned(140);
	aligned_alloca(141, 3000);
	large(142);
	for (int i = 0; i < 3; i++)
		deep(150 + i, 30 * i + 20);
	signals();
	pthread_create(&other, NULL, thread, (void *)301);
	pthread_join(other, NULL);
	contexts();
	qsort(numbers, 3, sizeof(int), compare);
	pthread_once(&control, once);
	for (int i = 1; i < argc; i++) { // libraries whose constructors take blocks
		void *library = dlopen(argv[i], RTLD_NOW);

		if (!library)
			return 2;
		dlclose(library);
	}
	atexit(at_exit);
	return 0;
}
