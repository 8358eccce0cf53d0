// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread; cflags=-fno-builtin; plugins=plug_a; libs=leaf
// Waits for a line, then does what a breakpoint could go wrong with, and says how often it has
// called labs(), which functions it has called so often and what came of the rest.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef ROUNDS
#define ROUNDS 400
#endif
#ifndef OFTEN
#define OFTEN 1500 // microseconds between signals
#endif

static atomic_long calls, wrong, handled, trapped;
static jmp_buf back;
extern char **environ;

static long counted(long value)
{
	calls++;
	return labs(value);
}

static void *work(void *argument)
{
	for (long i = 0; i < ROUNDS; i++)
		wrong += counted(-i - (long)argument) != i + (long)argument;
	return argument;
}

static void on_alarm(int number)
{
	handled++;
	wrong += counted(-number) != number;
}

static void on_trap(int number, siginfo_t *about, void *context)
{
	trapped++;
#ifdef __aarch64__
	// it stands at the breakpoint, not behind it
	if (about->si_code > 0)
		((ucontext_t *)context)->uc_mcontext.pc += 4;
#endif
	(void)number;
	(void)about;
	(void)context;
}

static void trap(void)
{
#ifdef __aarch64__
	__asm__ volatile("brk #7");
#else
	__asm__ volatile("int3");
#endif
}

static int compare(const void *left, const void *right)
{
	return (int)counted(*(const int *)left) - (int)counted(*(const int *)right);
}

static int jump(const void *left, const void *right)
{
	(void)left;
	(void)right;
	longjmp(back, 1);
}

static void in_threads(void)
{
	pthread_t threads[4];
	void *result;

	for (int round = 0; round < 3; round++) {
		for (long i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, work, (void *)i);
		for (long i = 0; i < 4; i++) {
			pthread_join(threads[i], &result);
			wrong += result != (void *)i;
		}
	}
}

static void in_handlers(void)
{
	struct sigaction alarms = {.sa_handler = on_alarm}, traps = {.sa_sigaction = on_trap};
	struct itimerval often = {{0, OFTEN}, {0, OFTEN}}, never = {{0, 0}, {0, 0}};

	traps.sa_flags = SA_SIGINFO;
	sigaction(SIGALRM, &alarms, NULL);
	sigaction(SIGTRAP, &traps, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < 5 * ROUNDS; i++)
		wrong += counted(-i) != i;
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < 5; i++) {
		raise(SIGTRAP);
		trap();
	}
}

static void in_callbacks(void)
{
	int numbers[64];

	for (int i = 0; i < 64; i++)
		numbers[i] = i * 37 % 64 - 32;
	qsort(numbers, 64, sizeof(*numbers), compare);
	for (int i = 1; i < 64; i++)
		wrong += abs(numbers[i - 1]) > abs(numbers[i]);
	for (int i = 0; i < 20; i++)
		if (!setjmp(back))
			qsort(numbers, 64, sizeof(*numbers), jump);
}

static void in_children(void)
{
	char *words[] = {"sh", "-c", "exit 5", NULL};
	int status;

	for (int i = 0; i < 6; i++) {
		pid_t child = i & 1 ? vfork() : fork();

		if (!child)
			_exit((int)labs(-3));
		waitpid(child, &status, 0);
		wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
	}
	for (int i = 0; i < 3; i++) {
		pid_t child;

		wrong += posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) != 0;
		waitpid(child, &status, 0);
		wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 5;
	}
	wrong += system("exit 4") != 4 << 8;
}

static void in_plugins(const char *path)
{
	for (int i = 0; i < 3; i++) {
		void *plugin = dlopen(path, RTLD_NOW);

		wrong += !plugin;
		work((void *)3);
		if (plugin)
			dlclose(plugin);
	}
}

int main(int argc, char **argv)
{
	char line[16], path[4096];
	char *slash;

	snprintf(path, sizeof(path), "%s", argv[0]);
	slash = strrchr(path, '/');
	snprintf(slash ? slash + 1 : path, 64, "libplug_a.so");
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && line[0] == 'g') {
		in_threads();
		in_handlers();
		in_callbacks();
		in_children();
		in_plugins(path);
		printf("calls %ld wrong %ld trapped %ld handled %d\n", (long)calls, (long)wrong,
		       (long)trapped, handled > 0);
		fflush(stdout);
	}
	(void)argc;
	return wrong ? 2 : 7;
}
