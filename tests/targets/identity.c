// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; ifunc=address; cflags=-fno-builtin; select=free@MAIN,strcmp@MAIN,f0@MAIN
// Functions that are both called and compared: the address stays the one that
// dlsym and another image see, and calls by name are counted. Where that address is
// the program's own stub, a call through it takes the program's slot as well.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*freer)(void *);
typedef int (*comparer)(const char *, const char *);

COUNTED(free);
COUNTED(strcmp);
COUNTED(f0);

static freer volatile kept_free = free;
static comparer volatile kept_strcmp = strcmp;

__attribute__((noinline)) static int same(int (*f)(int))
{
	return f == (int (*)(int))dlsym(RTLD_DEFAULT, "f0");
}

static int is_own_stub(void *function)
{
	Dl_info own, its;

	CHECK(dladdr((void *)same, &own) && dladdr(function, &its));
	return own.dli_fbase == its.dli_fbase;
}

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 1000; i++) {
		char *text = malloc(16);
		snprintf(text, 16, "%d", i % 3);
		sum += CALL(strcmp, text, "1") == 0;
		sum += CALL(f0, i) & 1;
		CALL(free, text);
	}
	freer volatile f = free;
	comparer volatile c = strcmp;
	CHECK(f == (freer)dlsym(RTLD_DEFAULT, "free"));
	CHECK(c == (comparer)dlsym(RTLD_DEFAULT, "strcmp"));
	CHECK(f == kept_free && c == kept_strcmp);
	CHECK(same(f0));
	if (is_own_stub((void *)f))
		COUNT(free);
	f(malloc(3)); // through the pointer
	if (is_own_stub((void *)c))
		COUNT(strcmp);
	sum += c("a", "a");
	REPORT(free);
	REPORT(strcmp);
	REPORT(f0);
	printf("identity %d\n", sum);
	return 0;
}
