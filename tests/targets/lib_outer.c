// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ldflags=-Wl,-rpath,$ORIGIN/deep
// Finds libdeep through its own RUNPATH alone: dlopen asks who called it.
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>

int outer_run(int x);

int outer_run(int x)
{
	void *inner = dlopen("libdeep.so", RTLD_NOW | RTLD_LOCAL);
	if (!inner) {
		puts(dlerror());
		return -1;
	}
	int (*run)(int) = (int (*)(int))dlsym(inner, "plug_run");
	CHECK(run);
	truth_calls("f0", 1);
	truth_calls("dlopen", 1);
	truth_calls("dlsym", 1);
	return f0(run(x));
}
