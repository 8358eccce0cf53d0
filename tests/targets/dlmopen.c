// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=ctor_array,ctor_dep,plug_a,space,space_throw,space_throw_static; ldflags=-pthread; runs=one|two|again|threads|errors|fork|throw; follow=yes
// Namespaces of their own, each with its own libc: constructors and calls in there.
#define _GNU_SOURCE
#include "leaf.h"
#include "space.h"
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

COUNTED(f0);

static void *opened(Lmid_t where, const char *name)
{
	void *library = dlmopen(where, name, RTLD_NOW);
	if (!library)
		puts(dlerror());
	CHECK(library);
	return library;
}

static int ask(void *library, const char *function, int times)
{
	int (*ask)(int) = (int (*)(int))dlsym(library, function);
	CHECK(ask && (void *)ask != dlsym(RTLD_DEFAULT, function));
	return ask(times);
}

static void report(void *library)
{
	((void (*)(void))dlsym(library, "space_report"))();
}

static Lmid_t space_of(void *library)
{
	Lmid_t space;
	CHECK(dlinfo(library, RTLD_DI_LMID, &space) == 0);
	return space;
}

static int one(void)
{
	int sum = 0;
	for (int i = 0; i < 5; i++) {
		void *library = opened(LM_ID_NEWLM, "libctor_array.so");
		sum += ask(library, "plug_run", 11);
		CHECK(dlclose(library) == 0);
	}
	return sum;
}

// Two at once, with several libraries in each, closed in another order than opened.
static int two(void)
{
	int sum = 0;
	for (int i = 0; i < 3; i++) {
		void *a = opened(LM_ID_NEWLM, "libspace.so"), *b, *c, *d, *here;
		b = opened(LM_ID_NEWLM, "libspace.so");
		c = opened(space_of(a), "libctor_dep.so");
		here = dlopen("libplug_a.so", RTLD_NOW | RTLD_LOCAL);
		d = opened(space_of(b), "libplug_a.so");
		CHECK(here && space_of(a) != space_of(b));
		sum += ask(a, "space_calls", 3) + ask(b, "space_calls", 4);
		sum += ask(c, "plug_run", 5) + ask(d, "plug_run", 6);
		sum += ((int (*)(int))dlsym(here, "plug_run"))(7);
		sum += ask(a, "space_memory", 8) + ask(b, "space_memory", 9);
		errno = E2BIG;
		sum += ask(a, "space_calls", 1);
		CHECK(errno == E2BIG);
		report(a);
		report(b);
		CHECK(dlclose(a) == 0);
		CHECK(dlclose(d) == 0);
		sum += ask(c, "plug_run", 2) + ask(b, "space_calls", 2);
		report(b);
		CHECK(dlclose(b) == 0 && dlclose(here) == 0 && dlclose(c) == 0);
	}
	return sum;
}

static int again(void)
{
	int sum = 0;
	for (int i = 0; i < 12; i++) {
		void *library = opened(LM_ID_NEWLM, i % 3 ? "libspace.so" : "libctor_array.so");
		if (i % 3) {
			sum += ask(library, "space_calls", i);
			report(library);
		} else {
			sum += ask(library, "plug_run", i);
		}
		CHECK(dlclose(library) == 0);
	}
	return sum;
}

static void *other_thread(void *library)
{
	for (int i = 0; i < 20; i++)
		CHECK(ask(library, "space_memory", 10) == 10);
	return library;
}

// Started by the namespace's own libc, and by the program's.
static int threads(void)
{
	int sum = 0;
	for (int i = 0; i < 3; i++) {
		void *library = opened(LM_ID_NEWLM, "libspace.so"), *back;
		pthread_t mine[2];
		for (int t = 0; t < 2; t++)
			CHECK(pthread_create(&mine[t], 0, other_thread, library) == 0);
		sum += ask(library, "space_threads", 25);
		for (int t = 0; t < 2; t++)
			CHECK(pthread_join(mine[t], &back) == 0 && back == library);
		truth_calls("pthread_create", 2);
		report(library);
		CHECK(dlclose(library) == 0);
	}
	return sum;
}

// Errors that are no errors of the program's own libc.
static int errors(void)
{
	void *library = opened(LM_ID_NEWLM, "libspace.so");
	void *here = dlopen("libspace.so", RTLD_NOW | RTLD_LOCAL);
	CHECK(here);
	errno = E2BIG;
	int sum = ask(library, "space_error", 3);
	CHECK(errno == E2BIG);
	sum += ((int (*)(int))dlsym(here, "space_error"))(2);
	CHECK(errno == ENOENT && dlclose(library) == 0 && dlclose(here) == 0);
	// most likely at one address, first in one namespace and then in another
	void *other = opened(LM_ID_NEWLM, "libplug_a.so");
	library = opened(space_of(other), "libspace.so");
	sum += ask(library, "space_error", 2);
	CHECK(dlclose(library) == 0);
	library = opened(LM_ID_NEWLM, "libspace.so");
	errno = E2BIG;
	sum += ask(library, "space_error", 2);
	CHECK(errno == E2BIG && dlclose(library) == 0 && dlclose(other) == 0);
	return sum;
}

static int use_once(const char *name, const char *function, int times)
{
	void *library = opened(LM_ID_NEWLM, name);
	int result = ask(library, function, times);
	report(library);
	CHECK(dlclose(library) == 0);
	return result;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "one";
	int sum = 0;
	CALL(f0, 1);
	if (!strcmp(how, "one"))
		sum = one();
	else if (!strcmp(how, "two"))
		sum = two();
	else if (!strcmp(how, "again"))
		sum = again();
	else if (!strcmp(how, "threads"))
		sum = threads();
	else if (!strcmp(how, "errors"))
		sum = errors();
	else if (!strcmp(how, "fork"))
		sum = use_once("libspace.so", "space_fork", 6);
	else
		sum = use_once("libspace_throw.so", "space_throw", 50) +
		      use_once("libspace_throw_static.so", "space_throw", 50);
	REPORT(f0);
	printf("dlmopen %s %d\n", how, sum);
	return 0;
}
