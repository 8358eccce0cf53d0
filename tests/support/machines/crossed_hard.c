// SPDX-License-Identifier: Apache-2.0
// What is hard for who sees calls by breakpoints, against the library's own account.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

int add(int, int);
int again(int, int (*)(int));
int callback(int);
const char *text(const char *);
void account(void);

static jmp_buf back;
static volatile sig_atomic_t ticks;

static int more(int n)
{
	return again(n, more);
}

static int jump(int n)
{
	longjmp(back, n + 1);
}

// A call that is the last thing, so that compilers may make it a jump.
static __attribute__((noinline)) const char *last(const char *what)
{
	return text(what);
}

static void ticked(int number)
{
	(void)number;
	callback(ticks++);
}

static void interrupted(void)
{
	const struct itimerval soon = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};

	signal(SIGALRM, ticked);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (int i = 0; i < 50 || ticks < 3; i++)
		add(i, 1);
	setitimer(ITIMER_REAL, &never, NULL);
}

static void plugins(void)
{
	for (int i = 0; i < 2; i++) {
		void *handle = dlopen("libplugin.so", RTLD_LAZY);
		int (*run)(int) = (int (*)(int))dlsym(handle, "plugin");

		run(2);
		dlclose(handle);
	}
}

static void child(void)
{
	if (!fork())
		_exit(0);
	wait(NULL);
}

int main(void)
{
	again(3, more); // which calls again before its first call has returned
	if (!setjmp(back))
		again(1, jump);
	last("text");
	child(); // slots are as they were, some of them bound
	last("again");
	interrupted();
	plugins();
	puts("done");
	fflush(stdout);
	account();
	exit(3); // never returns
}
