// SPDX-License-Identifier: Apache-2.0
// target: libs=inside; cflags=-O2 -fomit-frame-pointer; ldflags=-pthread
/*
 * A thread that is inside the library, or is not but has the library's addresses all over its
 * stack, and waits:
 *
 *     inside WAY [COUNT]
 *
 * Prints "inside" or "outside" when it is there, and waits for a line on its input.
 */

#define _GNU_SOURCE
#include <gnu/libc-version.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

typedef void callback(void *argument);

void inside_call(callback *function, void *argument);
void inside_litter(int depth);
int inside_spin(void);
void inside_stop(void);
void inside_recurse(int depth, callback *function, void *argument);

static volatile int over, returned, calls, waiting;
static int count = 1;
static const char *said;

static void say(void)
{
	if (said)
		puts(said);
	said = NULL;
	fflush(stdout);
}

static void wait_for_line(void *unused)
{
	char line[8];

	(void)unused;
	say();
	while (read(0, line, sizeof(line)) < 0)
		;
	over = 1;
}

/* Live frames with locals that nobody has written: what lies there is the litter. */
static __attribute__((noinline)) void hold(callback *function, void *argument, int depth)
{
	volatile char *area = __builtin_alloca(1024);

	__asm__ volatile("" ::"r"(area) : "memory");
	if (depth)
		hold(function, argument, depth - 1);
	else
		function(argument);
	returned++;
}

static void do_poll(void *unused)
{
	struct pollfd input = {0, POLLIN, 0};

	(void)unused;
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	say();
	poll(&input, 1, -1);
}

static void do_nanosleep(void *unused)
{
	struct timespec span = {1000, 0};

	(void)unused;
	say();
	nanosleep(&span, NULL);
}

static void do_futex(void *unused)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	(void)unused;
	pthread_mutex_lock(&mutex);
	say();
	pthread_cond_wait(&cond, &mutex);
}

static void *sleeps(void *unused)
{
	do_poll(unused);
	return NULL;
}

static void do_join(void *unused)
{
	pthread_t thread;

	(void)unused;
	pthread_create(&thread, NULL, sleeps, NULL);
	pthread_join(thread, NULL);
}

static void do_clock(void *unused)
{
	struct timespec now;

	(void)unused;
	say();
	while (!over)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

static void do_stub(void *unused)
{
	(void)unused;
	say();
	while (!over)
		calls += *gnu_get_libc_version();
}

static void do_sort_of(void *unused)
{
	do_poll(unused);
}

static int compare(const void *left, const void *right)
{
	if (!over)
		wait_for_line(NULL);
	return *(const int *)left - *(const int *)right;
}

static void do_qsort(void *unused)
{
	int numbers[] = {3, 1, 2};

	(void)unused;
	qsort(numbers, 3, sizeof(*numbers), compare);
}

static void handle(int number)
{
	(void)number;
	wait_for_line(NULL);
	inside_stop();
}

/* A handler waits that has interrupted the library, or the program with its litter. */
static void in_handler(int is_inside, int flags)
{
	static char stack[65536];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = handle, .sa_flags = flags};

	sigaltstack(&other, NULL);
	sigaction(SIGALRM, &action, NULL);
	ualarm(100000, 0);
	if (is_inside)
		inside_spin();
	else
		while (!over)
			calls++;
}

static void interrupted(void *flags)
{
	in_handler(0, flags ? SA_ONSTACK : 0);
}

static __attribute__((noinline)) void recurse(int depth)
{
	if (depth)
		recurse(depth - 1);
	else
		wait_for_line(NULL);
	returned++;
}

static void do_recurse(void *unused)
{
	(void)unused;
	recurse(count);
}

/* Waits below a frame of code that no image has, and no table describes. */
static void below_machine_code(void *unused)
{
	/* sub $8,%rsp; xor %esi,%esi; xchg %rdi,%rsi; call *%rsi; add $8,%rsp; ret */
	static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0x31, 0xf6, 0x48, 0x87,
					     0xfe, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x08, 0xc3};
	void (*function)(callback *);
	void *area = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(area, code, sizeof(code));
	memcpy(&function, &area, sizeof(area));
	(void)unused;
	function(wait_for_line);
	returned++;
}

static ucontext_t outer, inner;

static void leave(void *unused)
{
	(void)unused;
	swapcontext(&inner, &outer);
}

static void coroutine(void)
{
	inside_call(leave, NULL);
}

static void in_coroutine(void)
{
	inside_call(wait_for_line, NULL);
}

static void switch_to(void (*function)(void))
{
	static char stack[65536];

	getcontext(&inner);
	inner.uc_stack.ss_sp = stack;
	inner.uc_stack.ss_size = sizeof(stack);
	inner.uc_link = &outer;
	makecontext(&inner, function, 0);
	swapcontext(&outer, &inner);
}

static void *way_of_thread(void *argument)
{
	callback *function = (callback *)argument;

	inside_litter(8);
	hold(function, NULL, 3);
	return NULL;
}

static const struct {
	const char *name;
	callback *function;
	void *argument;
} quiet[] = {
	{"read", wait_for_line, NULL},
	{"poll", do_poll, NULL},
	{"nanosleep", do_nanosleep, NULL},
	{"futex", do_futex, NULL},
	{"join", do_join, NULL},
	{"clock", do_clock, NULL},
	{"stub", do_stub, NULL},
	{"qsort", do_qsort, NULL},
	{"interrupted", interrupted, NULL},
	{"interrupted-alt", interrupted, &over},
	{"machine-code", below_machine_code, NULL},
	{"recursion", do_recurse, NULL},
	{"nothing", do_sort_of, NULL},
};

int main(int argc, char **argv)
{
	const char *way = argv[1];
	size_t index;
	int thread;

	if (argc > 2)
		count = atoi(argv[2]);
	said = "outside";
	for (index = 0; index < sizeof(quiet) / sizeof(*quiet); index++)
		if (!strcmp(way, quiet[index].name)) {
			inside_litter(8);
			hold(quiet[index].function, quiet[index].argument, 3);
			return 0;
		}
	if (!strcmp(way, "threads")) {
		said = NULL;
		for (thread = 0; thread < count; thread++) {
			pthread_t one;

			pthread_create(&one, NULL, way_of_thread, (void *)do_poll);
		}
		while (waiting < count)
			usleep(1000);
		said = "outside";
		wait_for_line(NULL);
	} else if (!strcmp(way, "clean-machine-code")) {
		below_machine_code(NULL);
	} else if (!strcmp(way, "coroutine")) {
		switch_to(coroutine);
		wait_for_line(NULL);
	}
	said = "inside";
	if (!strcmp(way, "callback"))
		inside_call(wait_for_line, NULL);
	else if (!strcmp(way, "handler"))
		in_handler(1, 0);
	else if (!strcmp(way, "handler-alt"))
		in_handler(1, SA_ONSTACK);
	else if (!strcmp(way, "deep"))
		inside_recurse(count, wait_for_line, NULL);
	else if (!strcmp(way, "below"))
		inside_call(do_recurse, NULL);
	else if (!strcmp(way, "in-coroutine"))
		switch_to(in_coroutine);
	return 0;
}
