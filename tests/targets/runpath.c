// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=outer,plug_b; select=f0,dlopen@MAIN,dlopen@libouter.so,dlsym@MAIN,dlsym@libouter.so
// A library that opens another one by its own search path, $ORIGIN/deep, while the
// program cannot find it.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void copy(const char *name, const char *folder, const char *as)
{
	char path[4200], self[4096];
	static char bytes[1 << 20];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	CHECK(length > 0);
	self[length] = 0;
	*strrchr(self, '/') = 0;
	snprintf(path, sizeof path, "%s/%s", self, name);
	FILE *file = fopen(path, "rb");
	size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
	CHECK(size > 0 && size < sizeof bytes);
	fclose(file);
	snprintf(path, sizeof path, "%s/%s", folder, as);
	file = fopen(path, "wb");
	CHECK(file && fwrite(bytes, 1, size, file) == size);
	fclose(file);
}

int main(void)
{
	const char *parent = getenv("TMPDIR");
	char folder[4096], deep[4110], path[4200];
	snprintf(folder, sizeof folder, "%s/runpath.XXXXXX", parent ? parent : "/tmp");
	CHECK(mkdtemp(folder));
	snprintf(deep, sizeof deep, "%s/deep", folder);
	CHECK(mkdir(deep, 0700) == 0);
	copy("libouter.so", folder, "libouter.so");
	copy("libplug_b.so", deep, "libdeep.so");

	snprintf(path, sizeof path, "%s/libouter.so", folder);
	void *outer = dlopen(path, RTLD_NOW);
	if (!outer)
		puts(dlerror());
	CHECK(outer);
	int (*run)(int) = (int (*)(int))dlsym(outer, "outer_run");
	CHECK(run);
	CHECK(!dlopen("libdeep.so", RTLD_NOW)); // not by the program's own path
	int x = f0(19);
	truth_calls("f0", 1);
	truth_calls("dlopen", 2);
	truth_calls("dlsym", 1);
	printf("runpath %d\n", run(x));

	unlink(path);
	snprintf(path, sizeof path, "%s/libdeep.so", deep);
	unlink(path);
	rmdir(deep);
	rmdir(folder);
	return 0;
}
