// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=plug_a,ctor_dep,ctor_array; ldflags=-pthread; runs=100; soak=5000
// dlopen_threads N: two threads open and close libraries in loops, a third makes
// hooked calls all the while.
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

COUNTED(f0);
COUNTED(f2);

static int rounds;
static volatile int opening = 2;

static void *opens(void *argument)
{
	const char *name = argument;
	for (int i = 0; i < rounds; i++) {
		void *library = dlopen(name, i & 1 ? RTLD_NOW : RTLD_LAZY);
		CHECK(library);
		int (*run)(int) = (int (*)(int))dlsym(library, "plug_run");
		CHECK(run && run(3) == 3);
		CALL(f0, i);
		dlclose(library);
	}
	__atomic_fetch_sub(&opening, 1, __ATOMIC_RELAXED);
	return 0;
}

static void *calls(void *argument)
{
	while (opening)
		for (int i = 0; i < 100; i++) {
			CALL(f2, i);
			if (i == 50)
				usleep(100);
		}
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	rounds = argc > 1 ? atoi(argv[1]) : 50;
	CHECK(pthread_create(&threads[0], 0, opens, "libplug_a.so") == 0);
	CHECK(pthread_create(&threads[1], 0, opens, "libctor_dep.so") == 0);
	CHECK(pthread_create(&threads[2], 0, calls, 0) == 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	REPORT(f0);
	REPORT(f2);
	printf("opened %d\n", rounds);
	return 0;
}
