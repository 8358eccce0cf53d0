// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "hazards.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define ALONE __attribute__((noinline))
#define HERE(name) ((void)__atomic_fetch_add(&hazard_counts[N_##name], 1, __ATOMIC_RELAXED))

uint64_t hazard_counts[HAZARDS_COUNT];

ALONE uint64_t fib(unsigned n)
{
	HERE(fib);
	// no compiler makes a loop of this
	return n < 2 ? n : (fib(n - 1) + 7) / (1 + fib(n - 2) % 5);
}

// deeper than a thread's frames have room
ALONE uint64_t dive(unsigned n)
{
	HERE(dive);
	return n ? (dive(n - 1) * 5 + 1) % 1000003 : fib(5);
}

static ALONE uint64_t odd(uint64_t n);

// -O2 jumps from one to the other
ALONE uint64_t even(uint64_t n)
{
	HERE(even);
	return n ? odd(n - 1) : 1;
}

static ALONE uint64_t odd(uint64_t n)
{
	HERE(odd);
	return n ? even(n - 1) : 0;
}

static jmp_buf landing;

ALONE uint64_t leap(unsigned depth)
{
	uint64_t below;

	HERE(leap);
	if (!depth)
		longjmp(landing, 7);
	below = leap(depth - 1);
	return below / (1 + below % 5);
}

ALONE uint64_t land(unsigned times)
{
	volatile uint64_t sum = 0;
	volatile unsigned left = times;

	HERE(land);
	while (left--) {
		int how = setjmp(landing);

		sum += how ? (unsigned)how : leap(left % 20);
	}
	return sum + fib(4);
}

#ifdef __clang__
static uint64_t *counted;

static ALONE uint64_t adds(uint64_t x)
{
	HERE(adds);
	*counted += x;
	return *counted;
}

ALONE uint64_t nest(uint64_t n)
{
	uint64_t sum = n;

	HERE(nest);
	counted = &sum;
	for (uint64_t i = 0; i < n; i++)
		adds(i);
	return sum;
}
#else
// the enclosing function's frame is in a register
ALONE uint64_t nest(uint64_t n)
{
	uint64_t sum = n;

	ALONE uint64_t adds(uint64_t x)
	{
		HERE(adds);
		sum += x;
		return sum;
	}

	HERE(nest);
	for (uint64_t i = 0; i < n; i++)
		adds(i);
	return sum;
}
#endif

// its frame is aligned anew, and it takes room as it goes
ALONE uint64_t aligned(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
		       uint64_t g, struct big h)
{
	_Alignas(64) volatile uint64_t room[16];
	volatile char *more = alloca(16 + a % 512);

	HERE(aligned);
	memset((void *)more, (int)b, 16 + a % 512);
	for (int i = 0; i < 16; i++)
		room[i] = a + (unsigned char)more[i];
	return ((uint64_t)room & 63) + room[3] + b * c + d * e + f * g + h.words[8] + fib(3);
}

ALONE uint64_t rooms(unsigned n)
{
	uint64_t sum = 0;

	HERE(rooms);
	for (unsigned i = 1; i <= n; i++) {
		volatile char *room = alloca(i * 24);

		room[i] = (char)i;
		sum += fib(i % 6) + (uint64_t)room[i];
	}
	return sum;
}

ALONE double sums(int count, ...)
{
	double sum = 0;
	va_list list;

	HERE(sums);
	va_start(list, count);
	for (int i = 0; i < count; i++)
		sum += i % 2 ? va_arg(list, double) : (double)va_arg(list, long);
	va_end(list);
	return sum;
}

ALONE struct mixed mixed(double a, float b, long c, long double d)
{
	HERE(mixed);
	return (struct mixed){a * (double)d, b + (float)c, c - (long)a};
}

static ALONE int ordered(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	HERE(ordered);
	return x < y ? -1 : x > y;
}

ALONE uint64_t sorted(unsigned count)
{
	uint64_t numbers[256], sum = 0;

	HERE(sorted);
	for (unsigned i = 0; i < count; i++)
		numbers[i] = i * 7919 % 251;
	qsort(numbers, count, sizeof(*numbers), ordered);
	for (unsigned i = 0; i < count; i++)
		sum = sum * 31 + numbers[i];
	return sum;
}

static ALONE void handled(int number)
{
	HERE(handled);
	fib(3);
	(void)number;
}

// a handler that comes at any moment, on a stack of its own
ALONE uint64_t signalled(void)
{
	static char room[65536];
	stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)}, before;
	struct sigaction action = {.sa_handler = handled, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	uint64_t sum = 0;

	HERE(signalled);
	sigaltstack(&stack, &before);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 20; i++)
		sum += fib(15);
	setitimer(ITIMER_REAL, &never, NULL);
	raise(SIGALRM);
	signal(SIGALRM, SIG_IGN);
	sigaltstack(&before, NULL);
	return sum;
}

static ucontext_t contexts[3];
static uint64_t switches;

static ALONE void coroutine(int number)
{
	HERE(coroutine);
	for (;;) {
		switches += fib(3) + (unsigned)number;
		swapcontext(&contexts[number], &contexts[(number + 1) % 3]);
	}
}

ALONE uint64_t switched(unsigned rounds)
{
	static char stacks[2][65536];

	HERE(switched);
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
		makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
	}
	for (unsigned i = 0; i < rounds; i++) {
		switches += fib(2);
		swapcontext(&contexts[2], &contexts[0]);
	}
	return switches;
}

ALONE uint64_t borrowed(void)
{
	int status = 0;
	pid_t child;

	HERE(borrowed);
	child = vfork();
	if (!child) {
		fib(4);
		_exit(9);
	}
	waitpid(child, &status, 0);
	return (uint64_t)WEXITSTATUS(status) + fib(4);
}

ALONE uint64_t spawned(void)
{
	int status = 0;
	pid_t child;

	HERE(spawned);
	child = fork();
	if (!child)
		_exit((int)fib(6) % 100); // through calls that its parent has opened
	waitpid(child, &status, 0);
	return (uint64_t)WEXITSTATUS(status);
}

ALONE uint64_t twice(unsigned times)
{
	jmp_buf again;
	volatile unsigned left = times;
	volatile uint64_t sum = 0;

	HERE(twice);
	if (setjmp(again))
		sum += fib(2);
	if (left--)
		longjmp(again, 1);
	return sum;
}

ALONE void *ends(void *n)
{
	HERE(ends);
	fib((unsigned)(uintptr_t)n);
	pthread_exit(n);
}

ALONE void leaves(int status)
{
	HERE(leaves);
	exit(status);
}
