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
