// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=plug_a,plug_b,ctor_array,ctor_dep; ldflags=-pthread; orphans=yes; follow=yes; runs=1,8; timeout=60
// stress SEED ROUNDS: threads x dlopen x fork x signals, all at once, each thread
// with timers that strike anywhere:
//	callers		calls of many kinds, interrupted by handlers that call
//	jumpers		handlers that leave by siglongjmp from wherever they struck
//	openers		dlopen and dlclose, constructors and destructors that call
//	forkers		children: by fork, under a hooked call, out of a handler
//	churn		threads that return, leave by pthread_exit under a hooked
//			call, or by pthread_exit in a handler, wherever it struck
// What is counted must be exact, but for f2: it is called where a jump or an end
// may strike between counting and calling.
#define _GNU_SOURCE
#include "leaf.h"
#include "plug.h"
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CALLS, LEAVES, FORKS, KINDS };
static const int signals[KINDS] = {SIGUSR1, SIGUSR2, SIGHUP};
enum { CHILD_ENDS = 7 };
enum leave { STAY, JUMP, EXIT };

COUNTED(f0);
COUNTED(f1);
COUNTED(f8);
COUNTED(ff);
COUNTED(fcall);
COUNTED(fcallp);
COUNTED(fstr);
COUNTED(fva);

static long begun, done; // of f2
static long children;
static int rounds;
static unsigned seed;

static __thread volatile enum leave leave;
static __thread volatile long mine_begun, mine_done;
static __thread volatile int may_fork;
static __thread volatile int is_child, in_calls;
static __thread volatile long parents_begun, parents_done;
static __thread sigjmp_buf home;
static __thread timer_t timers[KINDS];
static __thread volatile int armed[KINDS];
static __thread unsigned strikes;

static unsigned chance(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 16;
}

static int inner(int x)
{
	return CALL(f0, x);
}

static int nest(int depth)
{
	return depth > 0 ? CALL(fcall, nest, depth - 1) : inner(depth);
}

static void calls(unsigned *state, int n)
{
	for (int i = 0; i < n; i++)
		switch (chance(state) & 7) {
		case 0:
			CHECK(CALL(fcall, inner, i) == i + 2);
			break;
		case 1:
			CHECK(CALL(f8, 1, 1, 1, 1, 1, 1, 1, i) == 28 + 8 * i);
			break;
		case 2:
			CHECK(CALL(ff, 3.0f) == 1.5f);
			break;
		case 3:
			CHECK(!strcmp(CALL(fstr, "a string of some length"),
				      "a string of some length"));
			break;
		case 4:
			CHECK(CALL(fva, 7, 1L, 1L, 1L, 1L, 1L, 1L, (long)i) == 21 + 7 * i);
			break;
		case 5:
			CHECK(nest(5) == 6);
			break;
		default:
			CHECK(CALL(f0, i) == i + 1);
		}
}

// ---- children --------------------------------------------------------------

static void reset(void)
{
	truth_role = "child";
	RESET(f0);
	RESET(f1);
	RESET(f8);
	RESET(ff);
	RESET(fcall);
	RESET(fcallp);
	RESET(fstr);
	RESET(fva);
}

static void report(void)
{
	REPORT(f0);
	REPORT(f1);
	REPORT(f8);
	REPORT(ff);
	REPORT(fcall);
	REPORT(fcallp);
	REPORT(fstr);
	REPORT(fva);
}

// Raw: where only one thread of many goes on, and in handlers, libc may be locked.
__attribute__((noreturn)) static void child(unsigned state, int depth)
{
	reset();
	calls(&state, 40);
	if (depth) {
		long pid = syscall(SYS_fork);
		int status = 0;
		if (!pid)
			child(state, depth - 1);
		while (waitpid((pid_t)pid, &status, 0) < 0 && errno == EINTR)
			;
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_ENDS);
		calls(&state, 5);
	}
	report();
	_exit(CHILD_ENDS);
}

static void expect(pid_t pid)
{
	int status = 0;
	CHECK(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_ENDS);
	__atomic_fetch_add(&children, 1, __ATOMIC_RELAXED);
}

static int under_call(int x)
{
	pid_t pid = fork();
	if (!pid)
		child((unsigned)x, 1);
	expect(pid);
	return x;
}

// Timers of this thread alone: they strike nobody when it has ended.
static void aim(int which)
{
	long after = 20000 + chance(&strikes) % 250 * 1000;
	struct itimerspec when = {{0, 0}, {0, after}};
	if (armed[which])
		timer_settime(timers[which], 0, &when, 0);
}

static void strike(int which)
{
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = signals[which];
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timers[which]) == 0);
	armed[which] = 1;
	aim(which);
}

static void calm(int which)
{
	armed[which] = 0;
	timer_delete(timers[which]);
}

// ---- handlers --------------------------------------------------------------

static void on_calls(int number)
{
	int kept = errno;
	(void)number;
	in_calls = 1;
	CALL(f1, 1);
	CALL(fcall, inner, 2);
	CALL(fstr, "in a handler");
	in_calls = 0;
	aim(CALLS);
	errno = kept;
}

// Every other child goes on where the handler struck.
static void on_forks(int number)
{
	int kept = errno;
	(void)number;
	if (may_fork > 0) {
		may_fork = may_fork - 1;
		CALL(f1, 1);
		long pid = syscall(SYS_fork);
		if (!pid) {
			if (in_calls || may_fork & 1)
				child(5, 0);
			reset();
			parents_begun = mine_begun;
			parents_done = mine_done;
			may_fork = 0;
			is_child = 1;
		} else {
			expect((pid_t)pid);
			CALL(f1, 2);
		}
	}
	aim(FORKS);
	errno = kept;
}

static void on_leaves(int number)
{
	enum leave how = leave;
	(void)number;
	aim(LEAVES);
	if (how == STAY)
		return;
	leave = STAY;
	CALL(f1, 1);
	if (how == JUMP)
		siglongjmp(home, 1);
	pthread_exit(0);
}

static void handle(int which, void (*handler)(int), int flags)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	action.sa_flags = SA_RESTART | flags;
	sigfillset(&action.sa_mask); // a handler is left only from its own top
	if (which == CALLS) // which that one may interrupt
		sigdelset(&action.sa_mask, signals[FORKS]);
	sigaction(signals[which], &action, 0);
}

// ---- threads ---------------------------------------------------------------

static void account(void)
{
	__atomic_fetch_add(&begun, mine_begun, __ATOMIC_RELAXED);
	__atomic_fetch_add(&done, mine_done, __ATOMIC_RELAXED);
	mine_begun = mine_done = 0;
}

static int spin(int how)
{
	leave = (enum leave)how;
	for (;;) {
		mine_begun = mine_begun + 1;
		f2(how);
		mine_done = mine_done + 1;
	}
}

static void *caller(void *argument)
{
	unsigned state = seed * 7u + (unsigned)(long)argument;
	char alternate[1 << 16] __attribute__((aligned(16)));
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
	CHECK(sigaltstack(&stack, 0) == 0);
	strikes = state;
	strike(CALLS);
	for (int i = 0; i < rounds; i++)
		calls(&state, 400);
	calm(CALLS);
	return 0;
}

static void *jumper(void *argument)
{
	f2(0); // bound: a jump out of the loader's resolver would be the end of dlclose
	mine_begun = mine_done = 1;
	strikes = seed * 11u + (unsigned)(long)argument;
	strike(LEAVES);
	strike(CALLS);
	for (volatile int i = 0; i < rounds * 2; i++) {
		if (sigsetjmp(home, 1))
			continue;
		if (i & 1)
			spin(JUMP);
		else
			CALL(fcall, spin, JUMP);
	}
	calm(LEAVES);
	calm(CALLS);
	account();
	return 0;
}

static void *opener(void *argument)
{
	static const char *const names[] = {"libplug_a.so", "libplug_b.so", "libctor_array.so",
					    "libctor_dep.so"};
	unsigned state = seed * 13u + (unsigned)(long)argument;
	strikes = state;
	strike(CALLS);
	for (int i = 0; i < rounds; i++) {
		const char *name = names[chance(&state) & 3];
		void *library = dlopen(name, chance(&state) & 1 ? RTLD_NOW : RTLD_LAZY);
		CHECK(library);
		int (*run)(int) = (int (*)(int))dlsym(library, "plug_run");
		CHECK(!run || run(3) == 3);
		CALL(f0, i);
		CHECK(dlclose(library) == 0);
	}
	calm(CALLS);
	return 0;
}

static void *forker(void *argument)
{
	unsigned state = seed * 17u + (unsigned)(long)argument;
	strikes = state;
	strike(CALLS);
	for (int i = 0; i < rounds / 2; i++) {
		calls(&state, 20);
		if (i & 1) {
			CHECK(CALL(fcall, under_call, i) == i + 1);
			continue;
		}
		pid_t pid = fork();
		if (!pid)
			child(state, i & 1);
		expect(pid);
	}
	// out of handlers that interrupt anything
	may_fork = rounds;
	strike(FORKS);
	while (may_fork) {
		mine_begun = mine_begun + 1;
		f2(1);
		mine_done = mine_done + 1;
	}
	if (is_child) {
		long least = mine_done - parents_done - 1, most = mine_begun - parents_begun;
		calls(&state, 20);
		report();
		truth_range("f2", least > 0 ? least : 0, most);
		truth_role = "vfork"; // it may still be its parent's call, half counted
		truth_range("f2", 0, 1);
		_exit(CHILD_ENDS);
	}
	calm(FORKS);
	calm(CALLS);
	account();
	return 0;
}

static void *ends_in_call(void *argument)
{
	CALL(f0, 1);
	if (argument)
		pthread_exit(argument);
	return 0;
}

static void ended(void *argument)
{
	(void)argument;
	account();
}

static void *short_lived(void *argument)
{
	unsigned state = seed * 19u + (unsigned)(long)argument;
	long how = (long)argument % 3;
	calls(&state, 10);
	if (how < 2)
		return CALL(fcallp, ends_in_call, how ? &rounds : 0);
	pthread_cleanup_push(ended, 0);
	f2(0);
	mine_begun = mine_done = 1;
	strikes = state;
	strike(LEAVES);
	spin(EXIT);
	pthread_cleanup_pop(1);
	return 0;
}

static void *churn(void *argument)
{
	for (long i = 0; i < rounds; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, 0, short_lived, (void *)(i + (long)argument)) == 0);
		CHECK(pthread_join(thread, 0) == 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	void *(*const kinds[])(void *) = {caller, jumper, opener, forker, churn, caller};
	enum { THREADS = sizeof kinds / sizeof kinds[0] };
	pthread_t threads[THREADS];
	seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	rounds = argc > 2 ? atoi(argv[2]) : 8;
	handle(CALLS, on_calls, seed & 1 ? SA_ONSTACK : 0);
	handle(LEAVES, on_leaves, 0);
	handle(FORKS, on_forks, 0);
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], 0, kinds[(i + seed) % THREADS], (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	report();
	truth_range("f2", done, begun);
	printf("stress %u %d: %ld children\n", seed, rounds, children);
	return 0;
}
