// SPDX-License-Identifier: Apache-2.0
// target: libs=next,leaf
// What the loader tells about objects and symbols: dlsym(RTLD_NEXT) of an
// interposer, dladdr, dlinfo, dl_iterate_phdr.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

void *next_of(const char *name);
void *open_beside(const char *name);

COUNTED(f0);
COUNTED(f1);

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// A second object without a name, at the end, is the agent's answer to unwinders
// that ask through this function: it cannot be told who asks.
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (strstr(info->dlpi_name, "vdso") || (!*info->dlpi_name && *(int *)data))
		return 0;
	printf("object %s\n", base(info->dlpi_name));
	++*(int *)data;
	return 0;
}

int main(void)
{
	int sum = 0, count = 0;
	for (int i = 0; i < 60; i++)
		sum += CALL(f0, i) + CALL(f1, i);
	Dl_info info;
	CHECK(dladdr(dlsym(RTLD_DEFAULT, "f0"), &info));
	printf("f0 of %s is %s\n", base(info.dli_fname), info.dli_sname);
	CHECK(dladdr(dlsym(RTLD_DEFAULT, "f1"), &info));
	printf("f1 of %s is %s\n", base(info.dli_fname), info.dli_sname);
	CHECK(dladdr((void *)main, &info) && info.dli_fname);
	CHECK(dlsym(RTLD_NEXT, "f0") == dlsym(RTLD_DEFAULT, "f0"));
	CHECK(next_of("f1") == dlsym(RTLD_DEFAULT, "f1"));
	CHECK(open_beside("libc.so.6"));
	struct link_map *map = 0;
	CHECK(dlinfo(dlopen(0, RTLD_NOW), RTLD_DI_LINKMAP, &map) == 0);
	for (; map; map = map->l_next)
		if (!strstr(map->l_name, "vdso"))
			printf("link map %s\n", base(map->l_name));
	dl_iterate_phdr(visit, &count);
	REPORT(f0);
	REPORT(f1);
	printf("next %d %d\n", sum, count);
	return 0;
}
