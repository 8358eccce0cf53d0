// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf; plugins=ctor_array
// A namespace of its own, with its own libc: constructors and calls in there.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>

COUNTED(f0);

int main(void)
{
	int sum = 0;
	CALL(f0, 1);
	for (int i = 0; i < 5; i++) {
		void *library = dlmopen(LM_ID_NEWLM, "libctor_array.so", RTLD_NOW);
		if (!library)
			puts(dlerror());
		CHECK(library);
		int (*run)(int) = (int (*)(int))dlsym(library, "plug_run");
		sum += run(11);
		CHECK((void *)run != dlsym(RTLD_DEFAULT, "plug_run"));
		CHECK(dlclose(library) == 0);
	}
	REPORT(f0);
	printf("dlmopen %d\n", sum);
	return 0;
}
