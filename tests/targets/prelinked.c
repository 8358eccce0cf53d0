// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf,prelinked_start; plugins=prelinked_low,prelinked_high,prelinked_rodynamic; pie=yes; ldflags=-fuse-ld=bfd -Wl,-Ttext-segment=0x2f000000000; runs=now|lazy|moved|spaces
// Images whose first p_vaddr is not 0: at the address that they were made for, where the
// load bias is 0, and elsewhere.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

COUNTED(f0);

int started(int times);

static const char *const names[] = {
	"libprelinked_low.so",
	"libprelinked_high.so",
	"libprelinked_rodynamic.so",
};
enum { NAMES = sizeof(names) / sizeof(*names), ROOM = 1 << 16 };

static int run(void *library, int times)
{
	int (*run)(int) = library ? (int (*)(int))dlsym(library, "plug_run") : 0;
	if (!run)
		puts(dlerror());
	CHECK(run);
	return run(times);
}

static unsigned long start_of(void *library)
{
	struct link_map *map;
	Dl_info info;
	CHECK(dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
	CHECK(dladdr(dlsym(library, "plug_run"), &info));
	return (unsigned long)info.dli_fbase;
}

// The second time something else is where it wants to be.
static int moved(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);
	int sum = run(library, 3);
	unsigned long start = start_of(library);
	CHECK(dlclose(library) == 0);
	void *taken = mmap((void *)start, ROOM, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(taken == (void *)start);
	library = dlopen(name, RTLD_LAZY);
	sum += run(library, 4);
	CHECK(start_of(library) != start);
	CHECK(dlclose(library) == 0 && munmap(taken, ROOM) == 0);
	library = dlopen(name, RTLD_NOW);
	sum += run(library, 5);
	CHECK(start_of(library) == start);
	CHECK(dlclose(library) == 0);
	return sum;
}

static int spaces(const char *name)
{
	void *here = dlopen(name, RTLD_NOW), *there = dlmopen(LM_ID_NEWLM, name, RTLD_NOW);
	CHECK(here && there);
	int sum = run(there, 2) + run(here, 3);
	CHECK(dlclose(here) == 0);
	sum += run(there, 4);
	CHECK(dlclose(there) == 0);
	return sum;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "now";
	int sum = CALL(f0, 1) + started(9);
	for (int i = 0; i < NAMES; i++) {
		if (!strcmp(how, "moved")) {
			sum += moved(names[i]);
		} else if (!strcmp(how, "spaces")) {
			sum += spaces(names[i]);
		} else {
			void *library = dlopen(names[i], *how == 'n' ? RTLD_NOW : RTLD_LAZY);
			sum += run(library, 7);
			CHECK(dlclose(library) == 0);
		}
	}
	REPORT(f0);
	printf("prelinked %s %d\n", how, sum);
	return 0;
}
