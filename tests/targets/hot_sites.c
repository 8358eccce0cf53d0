// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-pthread; cflags=-fno-inline
// hot_sites WORD...: calls of one function through one slot, from several functions, each with a call
// site of its own. A word is HOW:SITES:CALLS[:THREADS], as in `main:abc:5000` or `once:ab:5000:4`:
//
//	main     the first thread makes CALLS calls from each of SITES by turns
//	once     THREADS threads do so at once
//	turns    one after the other, so that most have the thread pointer of the one before
//	signals  the first thread does so while a handler calls from site_g
//	forks    the same, and the handler forks a child that calls from SITES
//	-        words of lines of standard input; `ready` is printed first, `done` behind each line
//
// At the end `ROLE FUNCTION CALLS` is printed for each that has called: main, or child.
#define _GNU_SOURCE
#include "leaf.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SITES = 7, MOST_THREADS = 200, CHILDREN = 20 };
enum { SIGNALLED = SITES - 1 }; // site_g

static volatile int sink;

// No call is a tail call, and no two functions are the same.
#define SITE(name, more)                 \
	static void name(void)           \
	{                                \
		int x = f0(sink + more); \
		sink = x;                \
	}
SITE(site_a, 1)
SITE(site_b, 2)
SITE(site_c, 3)
SITE(site_d, 4)
SITE(site_e, 5)
SITE(site_f, 6)
SITE(site_g, 7)

static void (*const site[SITES])(void) = {site_a, site_b, site_c, site_d, site_e, site_f, site_g};
static const char *const names[SITES] = {"site_a", "site_b", "site_c", "site_d",
					 "site_e", "site_f", "site_g"};
static long (*made)[SITES]; // of the program, of its children
static int role;
static const char *sites;
static long calls;

static void call(int number, long times)
{
	for (long i = 0; i < times; i++)
		site[number]();
	__atomic_fetch_add(&made[role][number], times, __ATOMIC_RELAXED);
}

static void *work(void *unused)
{
	for (long i = 0; i < calls; i++)
		for (const char *each = sites; *each; each++)
			site[*each - 'a']();
	for (const char *each = sites; *each; each++)
		__atomic_fetch_add(&made[role][*each - 'a'], calls, __ATOMIC_RELAXED);
	return unused;
}

static volatile sig_atomic_t forks;

static void handler(int unused)
{
	(void)unused;
	call(SIGNALLED, 3);
	if (forks > 0) {
		pid_t child;

		forks--;
		child = fork();
		if (!child) {
			role = 1;
			work(NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void interrupted(void)
{
	struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};

	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
	work(NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	while (forks)
		raise(SIGALRM);
}

static void threads(long count, int at_once)
{
	pthread_t thread[MOST_THREADS];

	for (long i = 0; i < count; i++) {
		if (pthread_create(&thread[i], NULL, work, NULL))
			abort();
		if (!at_once)
			pthread_join(thread[i], NULL);
	}
	for (long i = 0; at_once && i < count; i++)
		pthread_join(thread[i], NULL);
}

static void follow(const char *word)
{
	char how[16], which[16];
	long count = 1;

	if (sscanf(word, "%15[^:]:%15[^:]:%ld:%ld", how, which, &calls, &count) < 3 ||
	    count > MOST_THREADS)
		abort();
	sites = which;
	if (!strcmp(how, "main"))
		work(NULL);
	else if (!strcmp(how, "once"))
		threads(count, 1);
	else if (!strcmp(how, "turns"))
		threads(count, 0);
	else {
		forks = strcmp(how, "forks") ? 0 : CHILDREN;
		interrupted();
	}
}

static void listen(void)
{
	char line[64];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		follow(line);
		puts("done");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	made = mmap(NULL, 2 * sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "-"))
			follow(argv[i]);
		else
			listen();
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < SITES; j++)
			if (made[i][j])
				printf("%s %s %ld\n", i ? "child" : "main", names[j], made[i][j]);
	return 0;
}
