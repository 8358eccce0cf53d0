/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "execute_only LIBRARY" opens a library and calls it; "execute_only" calls the one that it is linked
 * with.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int allocate(int count) __attribute__((weak));

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_LAZY) : NULL;
	int (*function)(int) = allocate;

	if (library)
		*(void **)&function = dlsym(library, "allocate");
	if (!function)
		abort();
	printf("%d\n", function(10));
	return 0;
}
