// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=thrower,thrower_static; cflags=-fexceptions
// A C program whose C++ plugins throw through its frames: the first unwinder comes
// by dlopen, the second lies inside the other plugin.
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>

COUNTED(fcall);

static int (*thrower)(int);

static int host(int x)
{
	return CALL(fcall, thrower, x);
}

static int use(const char *name)
{
	void *plugin = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		puts(dlerror());
	CHECK(plugin);
	int (*catcher)(int (*)(int), int) =
		(int (*)(int (*)(int), int))dlsym(plugin, "plugin_catch");
	thrower = (int (*)(int))dlsym(plugin, "plugin_throw");
	int sum = 0;
	for (int i = 0; i < 100; i++)
		sum += catcher(host, i);
	((void (*)(void))dlsym(plugin, "plugin_report"))();
	return sum;
}

int main(void)
{
	int shared = use("libthrower.so");
	int with_own = use("libthrower_static.so");
	REPORT(fcall);
	printf("plugins %d %d\n", shared, with_own);
	return 0;
}
