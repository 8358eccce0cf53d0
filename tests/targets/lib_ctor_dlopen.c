// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=plug_a
// A constructor that opens another library and calls it.
#include "plug_body.h"

#include <dlfcn.h>

__attribute__((constructor)) static void first(void)
{
	f0(1);
	truth_calls("f0", 1);
	void *other = dlopen("libplug_a.so", RTLD_NOW | RTLD_LOCAL);
	CHECK(other);
	int (*run)(int) = (int (*)(int))dlsym(other, "plug_run");
	CHECK(run && run(6) == 6);
	CHECK(dlclose(other) == 0);
}
