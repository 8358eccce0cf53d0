// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; cflags=-fno-inline -fno-optimize-sibling-calls; ldflags=-Wl,--export-dynamic; needs=libunwind.so.8
// The other libunwind, loaded late, steps through hooked frames to main.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

COUNTED(fcall);

static int (*get_context)(void *);
static int (*init_local)(void *, void *);
static int (*step)(void *);
static int (*get_reg)(void *, int, unsigned long *);
static char found[512];

int level_two(int x)
{
	static unsigned long context[512], cursor[512];
	CHECK(get_context(context) == 0 && init_local(cursor, context) == 0);
	found[0] = 0;
	while (step(cursor) > 0) {
		unsigned long ip = 0;
		Dl_info info;
		get_reg(cursor, 16, &ip); // UNW_REG_IP
		if (dladdr((void *)(ip - 1), &info) && info.dli_sname &&
		    (!strncmp(info.dli_sname, "level_", 6) || !strcmp(info.dli_sname, "main")))
			strcat(strcat(found, info.dli_sname), " ");
	}
	return x;
}

int level_one(int x)
{
	return CALL(fcall, level_two, x) + 1;
}

int main(void)
{
	int sum = 0;
	void *library = dlopen("libunwind.so.8", RTLD_NOW);
	CHECK(library);
	get_context = (int (*)(void *))dlsym(library, "_Ux86_64_getcontext");
	init_local = (int (*)(void *, void *))dlsym(library, "_ULx86_64_init_local");
	step = (int (*)(void *))dlsym(library, "_ULx86_64_step");
	get_reg = (int (*)(void *, int, unsigned long *))dlsym(library, "_ULx86_64_get_reg");
	CHECK(get_context && init_local && step && get_reg);
	for (int i = 0; i < 10; i++)
		sum += CALL(fcall, level_one, i);
	REPORT(fcall);
	printf("unwind %s%d\n", found, sum);
	return 0;
}
