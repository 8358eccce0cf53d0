// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=tls; ldflags=-pthread; select=f0,__tls_get_addr
// __tls_get_addr has a calling convention of its own; it is hooked like any other.
#include "truth.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static int (*run)(int);

static void *thread(void *argument)
{
	for (int i = 0; i < 10; i++)
		*(int *)argument = run(64);
	return 0;
}

int main(void)
{
	int results[4];
	pthread_t threads[4];
	void *library = dlopen("libtls.so", RTLD_NOW);
	CHECK(library);
	run = (int (*)(int))dlsym(library, "tls_run");
	CHECK(run);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, thread, &results[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], 0);
		CHECK(results[i] == 10);
	}
	printf("tls %d\n", run(1));
	return 0;
}
