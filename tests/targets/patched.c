// SPDX-License-Identifier: Apache-2.0
// target: libs=patchee; plugins=patchee_user; ldflags=-pthread
// patched THREADS: the threads call patchee all the time and count results that are neither the
// function's own nor that of a replacement (1000 or 2000 more). Of each line it says what it hears:
//
//	ask       results of patchee(1): from here, from its own library, from a late one, by address
//	load      loads the late one
//	unload    unloads it
//	fork      asks in a child
//	end       says how many results were wrong, ends with 5
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int patchee(int x);
int patchee_inside(int x);

static int (*late)(int);
static void *handle;
static volatile int ends;
static long wrong;

static void *call(void *unused)
{
	long bad = 0;
	(void)unused;
	for (int i = 0; !ends; i = (i + 1) % 1000) {
		int difference = patchee(i) - 2 * i;
		bad += difference != 0 && difference != 1000 && difference != 2000;
	}
	__atomic_add_fetch(&wrong, bad, __ATOMIC_RELAXED);
	return 0;
}

static void ask(void)
{
	printf("%d %d %d\n", patchee(1), patchee_inside(1), late ? late(1) : 0);
	fflush(stdout);
}

static void load(void)
{
	handle = dlopen("libpatchee_user.so", RTLD_NOW);
	late = handle ? (int (*)(int))dlsym(handle, "patchee_late") : 0;
	puts(late ? "loaded" : dlerror());
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t threads[128];
	char line[32];

	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], 0, call, 0);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
		if (!strcmp(line, "ask\n")) {
			ask();
		} else if (!strcmp(line, "load\n")) {
			load();
		} else if (!strcmp(line, "unload\n")) {
			late = 0;
			printf("%d\n", dlclose(handle));
			fflush(stdout);
		} else if (!strcmp(line, "fork\n")) {
			pid_t child = fork();
			if (!child) {
				load();
				ask();
				_exit(0);
			}
			waitpid(child, 0, 0);
		}
	}
	ends = 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], 0);
	printf("wrong %ld\n", wrong);
	return 5;
}
