/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code without unwind tables that keeps an address of a buffer in the frame pointer's register. The
 * buffer begins where the stack ends, and looks like frames. A block of 1,000 bytes is made before
 * the buffer is unmapped, one of 1,001 bytes from the same place after it. "frame_pointer thread" has
 * the stack of a thread, "coroutine" one of makecontext(3), "signal" the stack of a signal handler.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 16, BUFFER = 1 << 14, FRAMES = 3 };

void *allocate_with(size_t size, void *buffer);
void *never_called(void);
extern char behind_a_call[];

/* no .cfi_startproc: no table has them */
__asm__(".text\n"
	".globl allocate_with, never_called, behind_a_call\n"
	".type allocate_with, @function\n"
	"allocate_with:\n"
	"	push %rbp\n"
	"	mov %rsi, %rbp\n"
	"	call malloc@PLT\n"
	"	pop %rbp\n"
	"	ret\n"
	".size allocate_with, . - allocate_with\n"
	".type never_called, @function\n"
	"never_called:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call abort@PLT\n"
	"behind_a_call:\n"
	"	pop %rbp\n"
	"	ret\n"
	".size never_called, . - never_called\n");

static char *stack, *buffer;
static ucontext_t home, other;

static void *work(void *unused)
{
	uint64_t *words = (uint64_t *)buffer;
	void *blocks[2];

	for (int i = 0; i < FRAMES; i++) {
		words[4 * i] = (uint64_t)&words[4 * (i + 1)];
		words[4 * i + 1] = (uint64_t)behind_a_call;
	}
	for (int i = 0; i < 2; i++) {
		blocks[i] = allocate_with(1000 + (size_t)i, buffer);
		if (i == 0 && munmap(buffer, BUFFER) != 0)
			abort();
	}
	return blocks[0] && blocks[1] ? unused : NULL;
}

static void in_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, STACK) ||
	    pthread_create(&thread, &attributes, work, stack) || pthread_join(thread, NULL))
		abort();
}

static void enter(void)
{
	work(stack);
}

static void in_coroutine(void)
{
	if (getcontext(&other) != 0)
		abort();
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = STACK;
	other.uc_link = &home;
	makecontext(&other, enter, 0);
	if (swapcontext(&home, &other) != 0)
		abort();
}

static void on_signal(int signal)
{
	(void)signal;
	work(stack);
}

static void in_handler(void)
{
	const stack_t area = {.ss_sp = stack, .ss_size = STACK};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	if (sigaltstack(&area, NULL) || sigaction(SIGUSR1, &action, NULL) || raise(SIGUSR1))
		abort();
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "thread";

	stack = mmap(NULL, STACK + BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (stack == MAP_FAILED)
		abort();
	buffer = stack + STACK;
	if (!strcmp(way, "coroutine"))
		in_coroutine();
	else if (!strcmp(way, "signal"))
		in_handler();
	else
		in_thread();
	puts("alive");
	return 0;
}
