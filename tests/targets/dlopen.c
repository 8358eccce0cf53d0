// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=plug_a,plug_b,ctor_array,ctor_init,ctor_both,ctor_none,ctor_relr,ctor_dep,ctor_dlopen,undefined; runs=now|lazy|again|replace|fail
// dlopen and dlclose: every kind of constructor, one library many times, others at
// its place, and one that cannot be loaded.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

COUNTED(f0);

static int use(const char *name, int flags, int times)
{
	void *library = dlopen(name, flags);
	if (!library)
		fputs(dlerror(), stderr);
	CHECK(library);
	int (*run)(int) = (int (*)(int))dlsym(library, "plug_run");
	int result = run ? run(times) : 0;
	CHECK(dlclose(library) == 0);
#ifdef __GLIBC__ // musl unloads nothing
	CHECK(!dlopen(name, RTLD_NOLOAD | RTLD_NOW));
#endif
	return result;
}

static int fail(int flags)
{
	void *library = dlopen("libundefined.so", flags);
	CHECK(!library);
	CHECK(strstr(dlerror(), "missing_"));
	return 1;
}

int main(int argc, char **argv)
{
	static const char *const all[] = {
		"libctor_array.so", "libctor_init.so", "libctor_both.so",   "libctor_none.so",
		"libctor_relr.so",  "libctor_dep.so",  "libctor_dlopen.so",
	};
	const char *how = argc > 1 ? argv[1] : "now";
	int sum = 0;
	CALL(f0, 1);
	if (!strcmp(how, "now") || !strcmp(how, "lazy")) {
		int flags = (*how == 'n' ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL;
		for (int round = 0; round < 3; round++)
			for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
				sum += use(all[i], flags, 7);
		sum += use("libctor_dep.so", flags | RTLD_GLOBAL, 7);
	} else if (!strcmp(how, "again")) {
		for (int i = 0; i < 300; i++)
			sum += use("libplug_a.so", i & 1 ? RTLD_NOW : RTLD_LAZY, 3);
	} else if (!strcmp(how, "replace")) {
		for (int i = 0; i < 150; i++) {
			sum += use("libplug_a.so", RTLD_NOW, 2);
			sum += use("libplug_b.so", RTLD_NOW, 3);
			sum += use("libctor_array.so", RTLD_LAZY, 4);
		}
	} else {
		for (int i = 0; i < 20; i++) {
			sum += fail(RTLD_NOW);
			sum += fail(RTLD_LAZY | RTLD_GLOBAL);
			CHECK(!dlopen("libnowhere.so", RTLD_NOW));
			sum += use("libctor_array.so", RTLD_NOW, 2);
		}
	}
	CALL(f0, 1);
	REPORT(f0);
	printf("dlopen %s %d\n", how, sum);
	return 0;
}
