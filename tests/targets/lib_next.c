// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Stands in front of libleaf: its f0 calls the next one, as interposers do.
#define _GNU_SOURCE
#include "truth.h"

#include <dlfcn.h>

int f0(int x);

int f0(int x)
{
	static int (*next)(int);
	if (!next)
		next = (int (*)(int))dlsym(RTLD_NEXT, "f0");
	CHECK(next && next != f0);
	return next(x) + 1000;
}

// It ends in a jump: dlsym finds its caller by the return address of this call.
__attribute__((optimize("O2"))) void *next_of(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

__attribute__((optimize("O2"))) void *open_beside(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}
