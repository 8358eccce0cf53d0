// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=plug_a; runs=200; soak=2000; timeout=120
// images N: opens N copies of one library, so that N images have slots at once.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 20, sum = 0;
	void *original = dlopen("libplug_a.so", RTLD_NOW);
	struct link_map *map;
	CHECK(original && dlinfo(original, RTLD_DI_LINKMAP, &map) == 0);
	FILE *file = fopen(map->l_name, "rb");
	static char bytes[1 << 20];
	size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
	CHECK(size > 0 && size < sizeof bytes);
	fclose(file);

	const char *parent = getenv("TMPDIR");
	char folder[4096], path[4200];
	snprintf(folder, sizeof folder, "%s/images.XXXXXX", parent ? parent : "/tmp");
	CHECK(mkdtemp(folder));
	void **libraries = calloc((size_t)count, sizeof *libraries);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/libcopy%d.so", folder, i);
		file = fopen(path, "wb");
		CHECK(file && fwrite(bytes, 1, size, file) == size);
		fclose(file);
		libraries[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		unlink(path);
		CHECK(libraries[i]);
	}
	rmdir(folder);
	for (int i = 0; i < count; i++) {
		int (*run)(int) = (int (*)(int))dlsym(libraries[i], "plug_run");
		CHECK(run);
		sum += run(2);
	}
	for (int i = 0; i < count; i++)
		CHECK(dlclose(libraries[i]) == 0);
	printf("images %d\n", sum);
	return 0;
}
