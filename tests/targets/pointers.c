// SPDX-License-Identifier: Apache-2.0
// target: libs=leaf
// Calls that are nobody's slot: through data pointers and dlsym, beside real ones.
// They keep working and are not counted.
#define _GNU_SOURCE
#include "leaf.h"
#include "truth.h"

#include <dlfcn.h>
#include <stdio.h>

COUNTED(f0);

static int (*const table[])(int) = {f1, f2};

int main(void)
{
	int sum = 0;
	int (*pointer)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "f0");
	for (int i = 0; i < 100; i++) {
		sum += CALL(f0, i);
		sum += pointer(i) + table[i & 1](i);
	}
	CHECK(table[0] == (int (*)(int))dlsym(RTLD_DEFAULT, "f1"));
	REPORT(f0);
	printf("pointers %d\n", sum);
	return 0;
}
